"""Sections of the report on a synthetic set: `numbers`, `pairs` of images, and `pictures` of pairs."""
