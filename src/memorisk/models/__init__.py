"""Networks: built by name, weights loaded strictly, and models behind a query interface.

Start with `classifiers.zoo` (a network by name), `weight_files` (loading) and `encoders` (features of images).
`copy_detectors` and `lcmem` find copies; `latents` and `autoencoder` encode; `generators` draw.
`provenance` records the images and patients that a model has seen; `settings` and `feature_description` load nothing
heavy.
"""
