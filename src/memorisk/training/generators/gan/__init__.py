"""Training of GANs of the StyleGAN2 kind. Start with `fit`; `losses` has the formulas, `adaptive` the augmentation."""
