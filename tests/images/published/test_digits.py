"""The built-in digits: the recipe as it is written, and scikit-learn's scans unchanged."""

from collections import Counter

import numpy as np
from sklearn.datasets import load_digits

from memorisk.images.published.digits import digits_manifest, digits_rows
from memorisk.images.readers.digits import read_digit
from memorisk.images.sources.registry import load_manifest


def test_the_recipe_is_the_one_that_is_stated() -> None:
    manifest = digits_manifest()
    manifest.validate()
    _, digits = load_digits(return_X_y=True)
    whole = Counter(str(d) for d in digits)
    counts = Counter(manifest.labels)
    assert {label: counts[label] for label in "0123"} == {"0": 20, "1": 30, "2": 45, "3": 60}
    assert {label: counts[label] for label in "456789"} == {label: whole[label] for label in "456789"}
    assert manifest.n == 1232
    assert manifest.groups.tolist() == manifest.images.tolist()


def test_the_images_kept_are_evenly_spaced_in_their_class() -> None:
    _, digits = load_digits(return_X_y=True)
    rows = set(digits_rows().tolist())
    for digit, n in ((0, 20), (1, 30), (2, 45), (3, 60)):
        of_class = np.flatnonzero(digits == digit).tolist()
        kept = [place for place, row in enumerate(of_class) if row in rows]
        assert len(kept) == n
        gaps = np.diff(kept)
        assert gaps.max() - gaps.min() <= 1


def test_pixels_and_labels_are_scikit_learns() -> None:
    scans, digits = load_digits(return_X_y=True)
    manifest = load_manifest("digits")
    for row in range(0, manifest.n, 97):
        index = int(manifest.table["frame"].iloc[row])
        assert manifest.labels[row] == str(digits[index])
        np.testing.assert_array_equal(read_digit(index)[..., 0].ravel(), np.rint(scans[index] * 255 / 16))


def test_a_scan_may_be_changed_without_changing_the_next_reading() -> None:
    read_digit(3)[:] = 0
    assert read_digit(3).max() > 0
