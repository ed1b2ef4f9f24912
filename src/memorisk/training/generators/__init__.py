"""Generators of images: `command` trains one, `fit` says by which kind.

`diffusion` and `gan` are the two kinds, `conditions` the pseudo-conditions of paper 004, `drawing` makes sets.
"""
