"""LCMem: re-identification first, copies after (paper 004). Start with `fit`.

`sampler` draws the pairs, `augmentations` alters images, `validation` chooses the epoch, `measurement` reports on test
patients.
"""
