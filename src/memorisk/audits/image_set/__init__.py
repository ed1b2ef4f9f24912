"""Are these images fit to be audited? The run of ``images check --out``: start with `run`.

`memorisk.images.set_check` looks; here what it found becomes tables (`tables`), pictures (`pictures`) and a page.
"""
