"""Generators: `generators` opens one, `diffusion_sampling` draws from it. `dit` and `stylegan2` are the networks."""
