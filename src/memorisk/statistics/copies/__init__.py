"""Copies among generated images (METHODS section 5). Start with `reversed_queries`: the null of the held-out patients.

A pass rests on `tails` (images singled out) and `planted_copies` (power). `calibration` sets thresholds.
`copy_detection` compares detectors (paper 003); `set_memorization` judges a set as a whole.
"""
