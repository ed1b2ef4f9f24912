"""Multiple testing: lists of p-values, families of classes, and one error for repeated evaluations."""
