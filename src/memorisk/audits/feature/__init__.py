"""Does a model remember a mark that it saw once (paper 002)? Start with `run`, then `verdict`.

`marks` chooses the mark and its controls, `mark_answers` asks the models, `page` is the report.
"""
