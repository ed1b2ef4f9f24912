"""Common parts of the audits of generated images, from sets of images to all findings of the detectors.

Start with `sets`: training, synthetic and held-out images. `knowledge` finds the people that detectors and generators
know. `plants` are known copies, `features` and `distances` compare, `evidence` holds the view of each detector.
`review` reads a person's judgements of pairs, `pictures` shows pairs. `options` holds checks that settings share.
"""
