"""Pixel input: manifests, the image store, splits and checks. Start with `manifest`, `store` and `sources.registry`.

`pixels` is the work of worker processes; `set_check` is `images check`; `clean_set` writes a set anew for release.
`sources` makes manifests, `readers` reads files, `published` knows data sets by name, `copies` finds copies,
`alterations` changes images.
"""
