"""Sources that a user names: layouts on a disk, published sets, Python data sets, URLs.

Start with `load_manifest` in `registry`, which finds the layout or the published set of a source.
"""
