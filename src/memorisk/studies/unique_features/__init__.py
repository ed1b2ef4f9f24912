"""The study of paper 002, "Unintended memorisation of unique features in neural networks"."""
