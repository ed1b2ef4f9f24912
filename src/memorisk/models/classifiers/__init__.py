"""Image classifiers: `zoo` builds one by name, `specs` reads names and loads no torch.

`small_networks` and `unique_features` (paper 002) are memorisk's own networks.
"""
