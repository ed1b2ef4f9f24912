"""``memorisk study generators``: how much generators memorize, by kind, training-set size, duplicates and epochs.

Start with `study`. `config` and `plan` say which generators are trained, `cells` trains and measures one. `results`
and `memorization` compute rows, `tables` collects them, `wording` formats them, `page` shows them.
"""
