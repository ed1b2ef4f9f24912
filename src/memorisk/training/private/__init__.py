"""Differentially private training and low-rank adapters. Start with `regimes`, which names them."""
