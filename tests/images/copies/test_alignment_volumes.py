"""Alignment of a volume with its source: held to its definition over all mirrorings and shifts, and to known copies."""

from itertools import product
from math import cos, radians, sin

import numpy as np
import pytest
from scipy import ndimage

from memorisk.images.copies import alignment
from memorisk.images.copies.alignment import (
    WINDOWS,
    align,
    align_details,
    copy_details,
    find_pose,
    laid_slice,
    lay,
    shared_pixels,
    source_details,
)
from memorisk.images.volumes import middle_slice
from memorisk.runs.errors import InputError
from memorisk.statistics.copies.alignments import alignment_cut
from tests.images.copies.test_alignment import picture

MIRRORINGS = list(product((False, True), repeat=3))
"""Whether rows, columns and slices are mirrored."""
ORDER = [1, 0, 2]
"""Rows, columns and slices of x, y and z."""


def body(seed, side=16):
    """Smooth noise of several scales, [side, side, side] uint8."""
    rng = np.random.default_rng([3, seed])
    layers = [ndimage.gaussian_filter(rng.standard_normal((side,) * 3), sigma) for sigma in (0.8, 1.5, 3)]
    values = sum(layer / layer.std() for layer in layers)
    return np.rint((values - values.min()) / np.ptp(values) * 255).astype(np.uint8)


def moved(volume, mirrored, steps):
    """A copy that is mirrored along some axes and then shifted by whole voxels, borders repeated."""
    copy = np.flip(volume, [axis for axis in range(3) if mirrored[axis]])
    places = [np.clip(np.arange(n) - step, 0, n - 1) for n, step in zip(volume.shape, steps, strict=True)]
    return copy[np.ix_(*places)]


def truth(mirrored, steps, side):
    """Matrix [3, 4] from the voxels of such a copy to those of its source, in x, y, z."""
    signs = np.where(mirrored, -1.0, 1.0)
    shift = np.where(mirrored, side - 1.0, 0.0) - signs * steps
    return np.c_[np.diag(signs[ORDER]), shift[ORDER]]


def seen_through(volume, matrix):
    """What a copy shows whose voxel (x, y, z) lies at matrix @ (x, y, z, 1) in the volume, linear between voxels."""
    places = np.stack(np.meshgrid(*map(np.arange, volume.shape), indexing="ij"))[ORDER]
    at = np.tensordot(matrix, np.concatenate([places, np.ones_like(places[:1])]), axes=1)
    return np.rint(ndimage.map_coordinates(volume.astype(float), at[ORDER], order=1, mode="nearest")).astype(np.uint8)


def test_the_pose_is_the_best_of_all_mirrorings_and_shifts():
    rng = np.random.default_rng(0)
    for seed in range(3):
        mirrored, steps = MIRRORINGS[rng.integers(8)], rng.integers(-2, 3, 3)
        source, other = body(seed, 8), body(seed + 50, 8)
        noised = np.clip(moved(source, mirrored, steps) + rng.normal(0, 9, source.shape), 0, 255).astype(np.uint8)
        for copy in (noised, other):
            one, two = (alignment._details(volume)[0].fine.astype(float) for volume in (copy, source))
            one, two = one / np.linalg.norm(one), two / np.linalg.norm(two)
            best, how = -np.inf, None
            for flips, shift in product(MIRRORINGS, product(range(-4, 5), repeat=3)):
                flipped = np.flip(one, [axis for axis in range(3) if flips[axis]])
                here = tuple(slice(max(0, -s), 8 - max(0, s)) for s in shift)
                there = tuple(slice(max(0, s), 8 - max(0, -s)) for s in shift)
                agreement = (flipped[here] * two[there]).sum()
                if agreement > best:
                    best, how = agreement, (flips, shift)
            found = find_pose(copy_details(copy), source_details(source))
            assert found is not None
            assert found.agreement == pytest.approx(best, abs=1e-5)  # details are float32
            matrix = truth(how[0], (0, 0, 0), 8)
            matrix[:, 3] += np.array(how[1])[ORDER]
            np.testing.assert_array_equal(found.matrix[:3], matrix)


@pytest.mark.parametrize("mirrored", MIRRORINGS)
def test_every_mirroring_and_shift_is_found(mirrored):
    volume = body(1)
    for steps in ((0, 0, 0), (3, 0, 0), (0, -3, 0), (0, 0, 4), (2, -2, -3)):
        copy = moved(volume, mirrored, steps)
        found = align(copy, volume)
        assert found is not None
        np.testing.assert_allclose(found.matrix, truth(mirrored, steps, 16), atol=0.05)
        names = [name for name, flip in zip(alignment.AXES, mirrored, strict=True) if flip]
        said = ([f"mirrored {' and '.join(names)}"] if names else []) + ["moved"] * any(steps)
        assert found.words.split(", most alike")[0] == (", ".join(said) or found.words)
        assert found.mirrored == any(mirrored)
        assert found.scale == pytest.approx(1, abs=0.02)
        assert found.turn < 1


@pytest.mark.parametrize("side", [16, 40])
def test_turned_and_cropped_copies_are_reached_from_the_nearest_pose(side):
    volume, a, centre = body(2, side), radians(12), np.full(3, (side - 1) / 2)
    for linear, turn, scale, word in (
        (np.array([[cos(a), -sin(a), 0], [sin(a), cos(a), 0], [0, 0, 1]]), 12, 1, "turned by 1"),
        (np.diag([0.88, 0.88, 0.88]), 0, 0.88, "% of each side"),
    ):
        matrix = np.c_[linear, centre - linear @ centre]
        found = align(seen_through(volume, matrix), volume)
        assert found is not None
        corners = np.array([[*at, 1] for at in product((0, side - 1), repeat=3)]).T
        assert np.linalg.norm((found.matrix - matrix) @ corners, axis=0).mean() < 0.02 * side
        assert found.turn == pytest.approx(turn, abs=1)
        assert found.scale == pytest.approx(scale, abs=0.025)  # what corners as near allow
        assert word in found.words


def test_the_fast_similarity_is_that_of_its_definition():
    copy, source = (alignment._details(body(seed, 9))[0] for seed in (10, 11))
    pose = np.array([[0.9, -0.1, 0, 1.013], [0.12, 0.95, 0.05, -1.017], [0, 0.1, 1.05, 0.511], [0, 0, 0, 1]])
    fast = alignment._overlay(copy, source, pose)
    places = np.stack(np.meshgrid(*[np.arange(9)] * 3, indexing="ij"))[ORDER]
    at = np.tensordot(pose[:3], np.concatenate([places, np.ones_like(places[:1])]), axes=1)
    both = ((at >= 0) & (at <= 8)).all(axis=0)
    laid = ndimage.map_coordinates(source.fine.astype(float), at[ORDER], order=1)
    assert fast.overlap == pytest.approx(both.mean())
    one, other = copy.fine * both, laid * both
    noise = [0.001 * (values**2).sum() / both.sum() for values in (one, other)]
    for strength, share in zip(fast.strengths, WINDOWS, strict=True):
        side, best = round(share * 9), -np.inf
        for start in product(range(10 - side), repeat=3):
            window = tuple(slice(first, first + side) for first in start)
            n = both[window].sum()
            if n:
                squares = [
                    (values[window] ** 2).sum() + floor * n for values, floor in zip((one, other), noise, strict=True)
                ]
                r = (one[window] * other[window]).sum() / np.sqrt(squares[0] * squares[1])
                best = max(best, np.sqrt(n / both.size) * np.arctanh(r))
        assert strength == pytest.approx(best, rel=1e-5)  # details are float32


def test_a_source_is_laid_on_its_copy_and_shown_by_the_middle_slice():
    volume = body(6)
    copy = moved(volume, (False, False, True), (0, 2, 3))
    found = align(copy, volume)
    laid = lay(volume, found.matrix, copy.shape)
    assert (laid.shape, laid.dtype) == (copy.shape, copy.dtype)
    assert np.abs(laid.astype(int) - copy).mean() < 2
    shown = laid_slice(volume, found.matrix, middle_slice(copy).shape)
    np.testing.assert_array_equal(shown, middle_slice(laid))
    flat = picture(1)
    np.testing.assert_array_equal(laid_slice(flat, np.eye(3)[:2], flat.shape), flat)


def test_volumes_without_details_or_of_other_sides_are_not_aligned():
    volume = body(7)
    for flat in (np.zeros_like(volume), np.broadcast_to(np.arange(16, dtype=np.uint8), (16, 16, 16))):
        for pair in ((flat, volume), (volume, flat), (flat, flat)):
            found = align(*pair)
            assert found is None or 0 <= found.similarity < 1
    for other in (body(8, 20), picture(0)):
        with pytest.raises(InputError, match="volumes to align have equal sides"):
            align(other, volume)
    with pytest.raises(InputError, match=r"images to align are uint8 or uint16 .* not float64"):
        align(volume / 255, volume)


def test_new_people_are_not_confirmed_and_copies_are():
    people = [body(seed) // 2 + 110 for seed in range(120)]
    for one in people:
        one[..., :3] = 0  # what the field of view leaves out
    shared = shared_pixels(people[:40])
    assert shared.shape == (16, 16, 16)
    assert 0.1 < shared.mean() < 0.5
    sources = [source_details(volume, shared) for volume in people[:40]]

    def strengths(copies):
        pairs = zip(copies, sources, strict=False)
        laid = [align_details(copy_details(copy), source) for copy, source in pairs]
        return np.array([np.zeros(len(WINDOWS)) if one is None else one.strengths for one in laid])

    cut = alignment_cut(strengths(people[40:70]), strengths(people[70:100]), trials=100)
    assert not cut.confirmed(strengths(people[100:])).any()
    rng = np.random.default_rng(1)
    copies = [moved(one, MIRRORINGS[rng.integers(8)], rng.integers(-3, 4, 3)) for one in people[:20]]
    assert cut.confirmed(strengths(copies)).all()
