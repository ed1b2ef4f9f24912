"""Networks: built by name, weights loaded strictly, and models that can only be asked.

Start with `classifiers.zoo` (a network by name), `weight_files` (loading) and `encoders` (features of images).
`copy_detectors` and `lcmem` find copies; `latents` and `autoencoder` encode; `generators` draw.
`provenance` says whom a model has seen; `settings` and `feature_description` load nothing heavy.
"""
