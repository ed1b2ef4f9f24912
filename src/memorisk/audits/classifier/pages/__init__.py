"""The reports of the classifier audit. Start with `audit`, which orders the sections of the others.

`wording` holds the fixed sentences, `result_view` the counts that all pages read from a result.
"""
