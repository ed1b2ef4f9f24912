"""Layouts of image sets on a disk: folders, tables, arrays, DICOM trees, shards; each becomes a manifest.

Start with `draft` and `draft_steps`, the steps that all layouts share. `label_tables` joins labels from a table;
`files` walks folders and finds the files of a table; `patient_folders` tells folders of patients from classes.
"""
