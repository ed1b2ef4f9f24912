"""Marks that are put into images (paper 002): `marks` draws them, `controls` are what they are compared with."""
