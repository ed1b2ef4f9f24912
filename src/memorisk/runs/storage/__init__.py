"""Inputs at URLs, read only: start with `mirror`, which keeps a local copy of what a URL names.

`filesystem` lists and fetches files through fsspec. `locations` recognises URLs and knows the cache folder.
"""
