"""A number per image or per pair. Arrays in, arrays out; nothing is drawn or modelled here.

Start with `memorization` (M) and `twin_attacks`; `lira` and `rmia` are attacks with reference models, `marks` is
M_w. `influence` is self-influence, `distances` and `pairs` search all pairs exactly, `similarity` asks both alike.
"""
