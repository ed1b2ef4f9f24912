"""Published data sets by name. Start with `registry`; `layout` is what the readers share.

The modules follow the form in which a set is published: annotation tables, class folders, lists of files, binary
files.
"""
