"""What images share is taken away, the same as by the definition; where little can be learned, nothing is."""

import numpy as np

from memorisk.images.copies.details import COMPONENTS, FLOOR, fit_whitening
from memorisk.images.copies.duplicates import details


def alike(n, seed=0):
    """Thumbnails whose shared structure is ten times what is their own; a border that never changes."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(3, 32, 32))
    made = rng.normal(size=(n, 3)) @ shared.reshape(3, -1) * 10 + rng.normal(size=(n, 1024))
    made = np.clip(128 + 3 * made.reshape(n, 32, 32), 0, 255).astype(np.uint8)
    made[:, :4], made[:, -4:] = 0, 0
    return made


def test_vectors_are_those_of_the_definition():
    small = alike(80)
    whitening = fit_whitening(small)
    rest = details(small).astype(float)
    centred = rest - rest.mean(axis=0)
    _, spread, directions = np.linalg.svd(centred / np.sqrt(80), full_matrices=False)
    variance = spread[:20] ** 2
    wanted = centred @ directions[:20].T / np.sqrt(variance + FLOOR * np.median(variance))
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    found = whitening.vectors(small)
    assert found.shape == (80, 20)
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-3)
    np.testing.assert_array_equal(whitening.table(small), found)


def test_sets_and_blocks_are_learned_from_together():
    small = alike(1500)
    whole, parts = fit_whitening(small), fit_whitening(small[:700], small[700:])
    assert whole.basis is not None
    assert whole.basis.shape == (1024, COMPONENTS)
    products = [w.vectors(small[:50]) @ w.vectors(small[:50]).T for w in (whole, parts)]
    np.testing.assert_allclose(*products, atol=1e-3)


def test_strangers_are_no_longer_alike_and_copies_are():
    small = alike(400)
    copies = np.clip(small[:20].astype(int) + np.random.default_rng(1).integers(-2, 3, (20, 32, 32)), 0, 255)
    plain, white = (
        (v(small[:20]) @ v(np.concatenate([small[:20], copies.astype(np.uint8)])).T)
        for v in (details, fit_whitening(small).vectors)
    )
    apart = ~np.tile(np.eye(20, dtype=bool), 2)
    gaps = [np.diag(v[:, 20:]).min() - v[apart].max() for v in (plain, white)]
    assert gaps[0] < 0.1
    assert gaps[1] > 0.3


def test_noise_where_all_images_are_black_does_not_hide_a_copy():
    small = alike(400)
    noise = np.random.default_rng(2).integers(0, 4, (400, 32, 32))
    small[:, :4] = noise[:, :4]  # of a file's compression, and another one in the copies
    copies = small[:50].copy()
    copies[:, :4] = noise[100:150, :4]
    vectors = fit_whitening(small).vectors
    assert (vectors(small[:50]) * vectors(copies)).sum(axis=1).min() > 0.95


def test_few_or_flat_images_teach_nothing():
    small = alike(31)
    whitening = fit_whitening(small)
    assert whitening.basis is None
    np.testing.assert_array_equal(whitening.vectors(small), details(small))
    flat = np.full((40, 32, 32), 7, np.uint8)
    assert fit_whitening(flat, small).basis is None
    learned = fit_whitening(alike(60))
    assert not learned.vectors(flat).any()
    assert learned.table(flat).shape == (40, 15)
