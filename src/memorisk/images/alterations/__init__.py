"""Changes that are made to images on purpose.

`transformations` is the registry of ways to copy an image, and the place to start. Its forms have their functions in
`planting` (copies hidden in a synthetic set), `graded` (copies of stated strengths, paper 004) and `augmentations`
(training of LCMem), over `operations` on batches; `plants` and `families` list the forms by name, `options` are the
settings that name some. `marks` and `mark_controls` belong to paper 002, `interventions` to paper 000.
"""
