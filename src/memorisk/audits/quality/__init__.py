"""How good is a set of synthetic images? Start with `run`.

`figures` computes every figure, and the same of held-out real images as its reference; `transfer` trains on
synthetic and tests on real, `result` holds both, `page` is the report.
"""
