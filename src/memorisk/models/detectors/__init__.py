"""Trained detectors of copies: `folder` opens one, `lcmem` compares by its head."""
