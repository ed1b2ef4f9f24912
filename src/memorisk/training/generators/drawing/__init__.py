"""Sets of images drawn from a generator, each again alone to the byte. Start with `generating`."""
