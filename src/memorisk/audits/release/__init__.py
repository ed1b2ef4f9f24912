"""Parts that go with a release: a privacy statement, a model card, a gate, and figures in a tracker.

Start with `statement`. `integrity` opens finished runs, `model_descriptions`, `set_descriptions` and
`watch_descriptions` say what each kind found, `binding` ties them to files. `gate` checks a statement, `export` writes
clean files, `tracking` logs runs.
"""
