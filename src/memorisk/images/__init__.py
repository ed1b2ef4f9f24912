"""Pixels in: manifests, the image store, splits, checks. Start with `manifest`, `store` and `sources.registry`.

`pixels` is what worker processes do; `set_check` is `images check`; `clean_set` writes a set anew for release.
`sources` makes manifests, `readers` reads files, `published` knows data sets by name, `copies` finds copies,
`alterations` changes images.
"""
