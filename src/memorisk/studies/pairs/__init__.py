"""Detectors of copies judged on published protocols: re-identification and copies (paper 004)."""
