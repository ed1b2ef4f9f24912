"""Detectors of copies judged on published protocols: re-identification and copies (paper 004).

Start with `reid` or `copies`, one benchmark each; `benchmark` runs both. `plan` reads images and `detectors`,
`division` divides patients, `cells` computes the `similarity` of pairs. `scores` reads it, `results`, `figures` and
`page` lay it out. Columns and words are in `setup.yaml`, `reid.yaml` and `copies.yaml`.
"""
