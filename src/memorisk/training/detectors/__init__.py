"""Detectors of copies and of patients: `command` trains one, `pair_detectors` opens one.

`contrastive` trains by paper 003's losses, `lcmem` by paper 004's two stages; both losses are in `metric_losses`.
"""
