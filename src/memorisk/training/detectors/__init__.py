"""Detectors of copies and of people: `command` trains one, `pair_detectors` opens one.

`contrastive` trains by paper 003's losses, `lcmem` by paper 004's two stages.
"""
