"""When an audit passes, fails, or cannot say (METHODS section 6). Start with `verdict`.

`noticeable_gap` is what a pass rests on; `checks` is the outcome of a check, as data, `check_wording` its sentences;
`uneven_gaps` and `independent_draws` are such checks; `attack_verdict` judges attacks; `tiers` names sizes of mean M.
"""
