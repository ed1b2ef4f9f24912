"""A number about many images with its null and its interval: arrays in, frozen dataclasses out, no files, no torch.

Start with `intervals` (means, shares), `jackknife` and `randomization` (nulls); `verdicts` says what they decide.
`privacy_accounting` and `epsilon` are differential privacy; `exchangeability` checks that parts are a random split.
"""
