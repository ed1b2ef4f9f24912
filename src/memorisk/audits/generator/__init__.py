"""What does a generator itself remember? Twins of a generator, and the gaps of their losses (METHODS section 7).

Start with `run`. `options` are the settings, `plan` divides the patients, `trainings` trains the twins, `evidence`
turns their losses by noise level into the score table of a classifier's audit, whose analysis, verdict and pages serve
here, too; `dry_run` is the plan before anything is trained.
"""
