"""Best matches between two sets are those of all pairs, whatever the blocks; copies and mirrored copies are found."""

import numpy as np

from memorisk.images.duplicates import NEAR, details
from memorisk.images.near_copies import best_matches, thumbnails


def scenes(seed: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (n, 12, 12, 1), dtype=np.uint8)
    return np.kron(small, np.ones((1, 4, 4, 1), dtype=np.uint8))


def test_matches_are_those_of_all_pairs():
    first, second = thumbnails(scenes(0, 23)), thumbnails(scenes(1, 17))
    similarity = np.maximum(details(first) @ details(second).T, details(first[:, :, ::-1]) @ details(second).T)
    for block in (5, 1024):
        ours, theirs = best_matches(first, second, block=block)
        np.testing.assert_array_equal(ours.row, similarity.argmax(1))
        np.testing.assert_array_equal(theirs.row, similarity.argmax(0))
        np.testing.assert_allclose(ours.similarity, similarity.max(1), rtol=1e-5)
        np.testing.assert_allclose(theirs.similarity, similarity.max(0), rtol=1e-5)


def test_copies_are_found_as_they_are_and_mirrored():
    first, second = scenes(0, 20), scenes(1, 20)
    second[3], second[7] = first[11], first[4][:, ::-1]
    noisy = np.clip(second.astype(int) + np.random.default_rng(2).integers(-9, 10, second.shape), 0, 255)
    ours, theirs = best_matches(thumbnails(first), thumbnails(noisy.astype(np.uint8)))
    assert np.flatnonzero(ours.similarity >= NEAR).tolist() == [4, 11]
    assert ours.row[[4, 11]].tolist() == [7, 3]
    assert ours.mirrored[[4, 11]].tolist() == [True, False]
    assert theirs.row[[3, 7]].tolist() == [11, 4]
    assert theirs.mirrored[[3, 7]].tolist() == [False, True]


def test_an_empty_set_and_an_image_without_details():
    ours, theirs = best_matches(thumbnails(scenes(0, 3)), thumbnails(scenes(1, 0)))
    assert ours.row.tolist() == [-1, -1, -1]
    assert len(theirs.row) == 0
    flat = thumbnails(np.full((1, 40, 40, 1), 9, dtype=np.uint8))
    assert best_matches(flat, flat)[0].similarity.tolist() == [0.0]
