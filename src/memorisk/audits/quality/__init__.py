"""How good is a set of synthetic images? Start with `run`.

`figures` computes every figure beside that of held-out real images, `transfer` trains on synthetic and tests on
real, `result` holds both, `page` is the report.
"""
