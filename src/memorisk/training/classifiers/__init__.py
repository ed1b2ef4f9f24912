"""Classifiers: start with `command` (``train classifier``), or with `jobs` for the trainings of an audit.

`fit` trains one network; `twins` decides which images are in which model, `stacked` and `joint_jobs` train several at
once, `private` trains with differential privacy.
"""
