"""A number per image or per pair: differential scores, membership-inference attacks. Arrays in, arrays out."""
