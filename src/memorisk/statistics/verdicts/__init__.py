"""When an audit passes, fails, or cannot say (METHODS section 6). Start with `verdict`.

`noticeable_gap` is what a pass rests on; `attack_verdict` judges attacks; `tiers` names sizes of mean M.
"""
