"""What a statement says of a run: of models, of images, of a training."""
