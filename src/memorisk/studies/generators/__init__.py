"""``memorisk study generators``: how much generators memorize, by kind, training-set size, duplicates and epochs.

Start with `study`. `config` and `plan` say which generators are trained, `cells` trains and measures one. `results`
and `memorization` compute rows, `tables` collects them, `wording` holds the findings, `page` shows
them. Columns and words are in `study.yaml`.
"""
