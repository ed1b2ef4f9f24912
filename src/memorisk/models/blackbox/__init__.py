"""Models that can only be asked: PyTorch, ONNX, exported programs, saved outputs. Start with `predictors`.

`preprocessing` declares how pixels become a network's input.
"""
