"""Tables of a classifier audit: what `analysis` computes from the evidence, one subject per module.

`classes` tests each class and lists its patients, `attacks` runs every attack, `images` describes each image, and
`utility` says how good the models are. Start with `classes`.
"""
