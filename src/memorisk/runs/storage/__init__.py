"""Folders at URLs. Start with `filesystem`, which lists, fetches, puts and removes files below a URL.

`mirror` fetches what is read, `remote_run` uploads what is written; `bookkeeping` holds claim and index of a run.
`locations` says what is a URL and where its private copy lies.
"""
