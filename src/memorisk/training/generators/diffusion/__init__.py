"""Training of diffusion transformers. Start with `fit`; `loss` has the formula, `held_out` that of unseen images."""
