"""Equal images, and the most alike pairs of all, against definitions by loops."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import gaussian_filter

from memorisk.images.copies.duplicates import (
    closest_between_groups,
    details,
    equal_sets,
    linked_groups,
    near_pairs,
    positions,
    thumbnail,
)
from memorisk.images.splits import merge_linked


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["", "a", "b", "c", "dd"]), max_size=20))
def test_equal_sets_are_the_rows_of_each_hash(hashes):
    found = equal_sets(hashes)
    together = {(i, j) for rows in found for i in rows.tolist() for j in rows.tolist() if i != j}
    n = range(len(hashes))
    assert together == {(i, j) for i in n for j in n if i != j and hashes[i] == hashes[j] != ""}
    assert [rows[0] for rows in found] == sorted(rows[0] for rows in found)


def test_linked_groups_join_all_that_share_an_image():
    hashes = ["x", "x", "x", "y", "y", "z", "", ""]
    groups = ["p3", "p1", "p2", "p4", "p4", "p5", "p6", "p7"]
    linked = linked_groups(hashes, groups)
    assert merge_linked(groups, linked).tolist() == ["p1", "p1", "p1", "p4", "p4", "p5", "p6", "p7"]
    assert linked == [("p1", "p2"), ("p1", "p3")]


def definition(thumbnails):
    """Correlation of thumbnails less their Gaussian blur, pair by pair."""
    rest = []
    for small in thumbnails.astype(float):
        detail = small - gaussian_filter(small, 2.0, mode="reflect")
        rest.append((detail - detail.mean()).ravel())
    n = len(rest)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            length = np.linalg.norm(rest[i]) * np.linalg.norm(rest[j])
            found[i, j] = rest[i] @ rest[j] / length if length > 1e-9 else 0.0
    return found


def noisy_copies(n, seed=0, amount=40.0):
    """Random thumbnails; every third is a noisy copy of the one before it."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (n, 32, 32)).astype(float)
    small[2::3] = small[1::3][: len(small[2::3])] + rng.normal(0, amount, small[2::3].shape)
    return np.clip(small, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("block", [7, 16, 1000])
def test_near_pairs_are_those_of_the_definition(block):
    thumbnails = noisy_copies(40)
    similarity = definition(thumbnails)
    wanted = [(i, j) for i in range(40) for j in range(i + 1, 40) if similarity[i, j] >= 0.8]
    found = near_pairs(details(thumbnails), threshold=0.8, block=block)
    assert sorted(zip(found.first.tolist(), found.second.tolist(), strict=True)) == wanted
    assert len(wanted) == found.n_pairs == 13
    np.testing.assert_allclose(found.similarity, similarity[found.first, found.second], atol=1e-5)
    assert (np.diff(found.similarity) <= 0).all()


@pytest.mark.parametrize("block", [7, 16, 1000])
@pytest.mark.parametrize("count", [1, 9, 60, 5000])
def test_the_closest_pairs_of_different_groups_are_those_of_the_definition(block, count):
    thumbnails = noisy_copies(40)
    groups = np.array([f"p{i // 4}" for i in range(40)])
    similarity = definition(thumbnails)
    pairs = [(i, j) for i in range(40) for j in range(i + 1, 40) if groups[i] != groups[j] and similarity[i, j] > 0]
    wanted = sorted((similarity[pair] for pair in pairs), reverse=True)[:count]
    found = closest_between_groups(details(thumbnails), groups, count, block=block)
    np.testing.assert_allclose(found.similarity, wanted, atol=1e-5)
    assert found.n_pairs == len(found.first) == min(count, len(pairs))
    assert (groups[found.first] != groups[found.second]).all()
    assert (found.first < found.second).all()


def test_turned_copies():
    thumbnails = noisy_copies(9)
    laid = [np.rot90(thumbnails[3], k) for k in range(4)]
    laid += [np.flipud(turn) for turn in laid]
    everything = np.concatenate([thumbnails[:3], np.stack(laid)])[2:]
    plain = near_pairs(details(everything), threshold=0.99)
    assert plain.n_pairs == 0
    turned = near_pairs(
        details(everything), threshold=0.99, laid=[details(other) for other in positions(everything)], block=5
    )
    assert turned.n_pairs == 8 * 7 // 2
    assert 0 not in turned.first


def test_the_list_is_cut_to_the_most_similar():
    vectors = details(noisy_copies(60))
    whole, cut = near_pairs(vectors, threshold=0.5), near_pairs(vectors, threshold=0.5, limit=5, block=8)
    assert whole.n_pairs == cut.n_pairs == 20
    np.testing.assert_allclose(cut.similarity, whole.similarity[:5], rtol=1e-6)
    np.testing.assert_array_equal(cut.first, whole.first[:5])


def test_constant_images_are_near_to_none():
    flat = np.stack([np.full((32, 32), value, dtype=np.uint8) for value in (0, 0, 128, 255)])
    assert not details(flat).any()
    assert near_pairs(details(flat), threshold=0.01).n_pairs == 0
    assert closest_between_groups(details(flat), np.arange(4), 9).n_pairs == 0
    assert not thumbnail(np.full((50, 40, 3), 7, dtype=np.uint8)).any()


def test_memory_is_that_of_blocks_not_of_all_pairs():
    vectors, groups = details(noisy_copies(2000)), np.arange(2000)
    for search in (lambda: near_pairs(vectors, threshold=0.9, block=128),
                   lambda: closest_between_groups(vectors, groups, 500, block=128)):  # fmt: skip
        tracemalloc.start()
        search()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12 * 128 * 1024 * 4  # a dozen blocks of vectors; all pairs alone are 16 MB


def scan(height=90, width=120, seed=0):
    """Something like an image: smooth shapes under finer ones."""
    rng = np.random.default_rng(seed)
    field = sum(gaussian_filter(rng.normal(size=(height, width, 3)), (s, s, 0)) * s for s in (1, 2, 4, 10))
    field = (field - field.min()) / (field.max() - field.min())
    return (field * 255).astype(np.uint8)


def similarity(a, b):
    one, other = details(np.stack([thumbnail(a), thumbnail(b)]))
    return float(one @ other)


def test_brightness_contrast_depth_size_and_colour_do_not_matter():
    image = scan()
    dark = (image * 0.4 + 10).astype(np.uint8)
    deep = image.astype(np.uint16) * 257
    grey = np.asarray(Image.fromarray(image).convert("L"))[..., None]
    double = np.asarray(Image.fromarray(image).resize((240, 180), Image.Resampling.BILINEAR))
    for other in (dark, deep, grey, double):
        assert similarity(image, other) > 0.99
    assert similarity(image, scan(seed=1)) < 0.5
    faint = (image.astype(np.float64) / 255 * 40).astype(np.uint16)  # 16 bits of which 5 are used
    assert similarity(image, faint) > 0.99
