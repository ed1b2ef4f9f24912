"""Are these images fit to be audited? The run of ``images check --out``: start with `run`.

`memorisk.images.set_check.check` looks; this package turns its findings into tables (`tables`), pictures and a page.
"""
