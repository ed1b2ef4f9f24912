"""Models that only answer queries: PyTorch, ONNX, exported programs, saved outputs. Start with `predictors`.

`preprocessing` declares how pixels become a network's input.
"""
