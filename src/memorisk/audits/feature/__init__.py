"""Does a model remember a mark that it saw once (paper 002)? Start with `run`, then `verdict`.

`marks` chooses the mark and its controls, `evidence` loads the models, `mark_answers` queries one, `analysis` computes
the numbers, `page` is the report.
"""
