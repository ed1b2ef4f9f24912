"""Detectors judged on pairs of images (paper 004). Start with `guarantee`.

`identity_pairs` makes the pairs, `auc` and `decisions` score them, each with intervals over identities.
"""
