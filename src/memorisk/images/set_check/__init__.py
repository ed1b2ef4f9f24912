"""Check whether a set of images is fit to be audited, and its result as text."""
