"""GANs of the StyleGAN2 kind: `networks` holds both networks, `layers` their parts."""
