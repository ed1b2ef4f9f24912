"""Which training images does a fine-tuned classifier remember (paper 000)?

Start with `run`. `evidence` holds what twins answered, `analysis` makes numbers of it, `page` and `sections` the
report. Beside it: `losses` (answers that exist already), `target` (the released model), `comparison`, `defences`,
`explanations` and `interventions`.
"""
