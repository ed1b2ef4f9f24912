"""Weights from files: start with `weights`. Loading is strict and never unpickles."""
