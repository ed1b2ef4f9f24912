"""Common parts of the audits of generated images, from sets of images to all findings of the detectors.

Start with `sets`: training, synthetic and held-out images. `knowledge` finds the people that detectors and generators
know. `plants` are known copies, `features` and `distances` compare, `evidence` holds the view of each detector.
`second_look` lays pairs on one another, `review` reads a person's judgements of them, `pictures` and `page_parts` show
them. `options` holds the settings that name the parts.
"""
