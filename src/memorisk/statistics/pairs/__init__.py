"""Detectors judged on pairs: areas, specificity, guarantees (paper 004). Start with `guarantee`."""
