"""Models that can only be asked: PyTorch, ONNX, exported ones, saved outputs. Start with `predictors`."""
