"""Layouts of image sets on a disk: folders, tables, arrays, DICOM trees, shards; each becomes a manifest.

Start with `draft`, which has the steps that all layouts share; `files` walks folders and finds the files of a table.
"""
