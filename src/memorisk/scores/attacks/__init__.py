"""Membership inference: a score a module (LiRA, RMIA, loss differences). Start with `registry`."""
