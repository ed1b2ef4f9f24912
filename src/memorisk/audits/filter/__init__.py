"""A synthetic set without the images that a detector takes for copies: METHODS section 4, "Use" and "Guarantee"."""
