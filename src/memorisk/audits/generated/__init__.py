"""What audits of generated images share: from sets of images to all that detectors say of them.

Start with `sets`: training, synthetic and held-out images. `knowledge` says whom detectors and generators know.
`plants` are known copies, `features` and `distances` compare, `evidence` holds what every detector saw.
`review` reads what a person said of pairs, `pictures` shows pairs. `options` holds checks that settings share.
"""
