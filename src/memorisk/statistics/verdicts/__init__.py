"""When an audit passes, fails, or cannot say (METHODS section 6). Start with `verdict`.

`levels` holds every number at which a verdict is decided, `reasons` what a verdict is made of (`class_reasons`,
`check_reasons`), `remedies` what would decide it. `noticeable_gap` is what a pass rests on; `checks` is the outcome of
a check, as data; `uneven_gaps` and `independent_draws` are such checks; `attack_verdict` judges attacks; `tiers` names
sizes of mean M, `units` the words for patients or images.
"""
