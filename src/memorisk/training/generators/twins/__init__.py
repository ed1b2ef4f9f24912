"""Twins of a generator: what one training is (`recipes`), its networks and losses (`networks`, of GANs `gan`), its run.

Start with `jobs.run_twin`, which trains one twin and leaves the losses of every image.
"""
