"""Sources of images: folders, tables, arrays, DICOM trees, shards, Python data sets, URLs.

Start with `load_manifest` in `registry`; `draft` has the steps that all sources share.
"""
