"""LCMem: re-identification first, copies after (paper 004). Start with `command`, then `fit` and `losses`."""
