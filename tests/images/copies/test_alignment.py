"""Alignment of a copy with its source: transforms that are known, and images that have nothing to align."""

from math import cos, radians, sin

import numpy as np
import pytest
from scipy import ndimage

from memorisk.images.copies.alignment import (
    WINDOWS,
    align,
    align_details,
    copy_details,
    lay,
    shared_pixels,
    source_details,
)
from memorisk.runs.errors import InputError
from memorisk.statistics.copies.alignments import alignment_cut


def picture(seed, height=64, width=64, channels=1, dtype=np.uint8):
    """Smooth noise of several scales: structure everywhere, as in tissue."""
    rng = np.random.default_rng(seed)
    layers = [ndimage.gaussian_filter(rng.standard_normal((height, width, channels)), (s, s, 0)) for s in (1, 2, 5)]
    values = sum(layer / layer.std() for layer in layers)
    values = (values - values.min()) / (values.max() - values.min())
    return np.rint(values * np.iinfo(dtype).max).astype(dtype)


def seen_through(image, matrix):
    """What a copy shows whose pixel (x, y) lies at matrix @ (x, y, 1) in the image: the definition, pixel by pixel."""
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width]
    at = np.tensordot(matrix, np.stack([x, y, np.ones_like(x)]), axes=1)
    planes = [
        ndimage.map_coordinates(image[..., c].astype(float), [at[1], at[0]], order=1, mode="nearest")
        for c in range(image.shape[2])
    ]
    return np.rint(np.stack(planes, axis=-1)).astype(image.dtype)


def about_centre(image, degrees=0.0, scale=1.0, mirrored=False, shift=(0.0, 0.0)):
    """The matrix of a turn, a scale, a mirror and a shift in pixels, about the centre."""
    height, width = image.shape[:2]
    centre, a = np.array([(width - 1) / 2, (height - 1) / 2]), radians(degrees)
    linear = scale * np.array([[cos(a), -sin(a)], [sin(a), cos(a)]]) @ np.diag([-1.0 if mirrored else 1.0, 1.0])
    return np.c_[linear, centre - linear @ centre + np.asarray(shift)]


def corner_error(found, true, shape):
    """Mean distance, in pixels of the source, between where two transforms put the corners of the copy."""
    height, width = shape[:2]
    corners = np.array([[x, y, 1] for x in (0, width - 1) for y in (0, height - 1)]).T
    return np.linalg.norm(found @ corners - true @ corners, axis=0).mean()


@pytest.mark.parametrize(
    ("degrees", "scale", "mirrored", "words"),
    [
        (0, 1.0, False, "as it lies"),
        (0, 1.0, True, "mirrored"),
        (180, 1.0, True, "mirrored top to bottom"),
        (90, 1.0, False, "turned by 90 degrees"),
        (14, 1.0, False, "turned by 14 degrees"),
        (-17, 1.0, True, "mirrored, turned by 17 degrees"),
        (0, 0.8, False, "80% of either side"),
        (78, 0.9, True, "mirrored, turned by -78 degrees, 90% of either side"),
        (0, 1.15, False, "shrunk to 87%"),
    ],
)
@pytest.mark.parametrize("side", [28, 64, pytest.param(224, marks=pytest.mark.thorough)])
def test_a_known_transform_is_found(degrees, scale, mirrored, words, side):
    image = picture(1, side, side)
    true = about_centre(image, degrees, scale, mirrored)
    found = align(seen_through(image, true), image)
    assert found is not None
    assert corner_error(found.matrix, true, image.shape) < max(0.5, 0.01 * side)
    assert found.mirrored == mirrored
    assert found.similarity > 0.7
    if side >= 64:
        assert _without_region(found.words) == words.replace("-180", "180")


def _without_region(words):
    """The words without the last part, on the region that is most alike, and turns of -180 as 180 degrees."""
    kept = [part for part in words.replace("-180", "180").split(", ") if not part.startswith("most alike")]
    return ", ".join(kept) or "as it lies"


@pytest.mark.parametrize(("height", "width"), [(48, 90), (90, 48)])
def test_images_that_are_no_squares(height, width):
    image = picture(2, height, width, channels=3)
    true = about_centre(image, 9, 0.85, shift=(3.0, -2.0))
    found = align(seen_through(image, true), image)
    assert corner_error(found.matrix, true, image.shape) < 1
    assert found.overlap > 0.9
    turned = align(np.rot90(image), image)  # another shape than the source's
    assert turned.turn == pytest.approx(90, abs=1)
    assert np.abs(lay(image, turned.matrix, (width, height)).astype(int) - np.rot90(image)).mean() < 8


def test_light_blur_noise_and_depth_are_taken_away():
    image = picture(3)
    other = ndimage.gaussian_filter(255.0 * (image / 255.0) ** 1.5 * 0.7, (1, 1, 0))
    other += 3 * np.random.default_rng(0).standard_normal(image.shape)
    found = align(np.clip(other, 0, 255).astype(np.uint8), image.astype(np.uint16) * 257)
    assert found.similarity > 0.5
    assert corner_error(found.matrix, about_centre(image), image.shape) < 1


def test_a_pasted_region_and_an_overlay_count_by_their_size():
    image, other = picture(4), picture(5)
    strangers = align(other, image).similarity
    pasted = other.copy()
    pasted[8:44, 20:56] = image[8:44, 20:56]
    covered = image.copy()
    covered[40:60, 5:60] = 255
    found, under = align(pasted, image), align(covered, image)
    assert found.similarity > 2 * strangers
    assert under.similarity > 2 * strangers
    assert found.agreeing < 0.7
    assert "of the area" in found.words
    assert corner_error(found.matrix, about_centre(image), image.shape) < 1


def test_the_source_is_laid_on_the_copy():
    image = picture(6, channels=3)
    copy = seen_through(image, about_centre(image, 12, 0.8, True))
    laid = lay(image, align(copy, image).matrix, copy.shape[:2])
    assert laid.shape == copy.shape
    assert laid.dtype == copy.dtype
    inner = np.s_[6:-6, 6:-6]
    apart = np.abs(image[inner].astype(int) - copy[inner]).mean()
    assert np.abs(laid[inner].astype(int) - copy[inner]).mean() < 0.1 * apart


def test_the_same_pair_gives_the_same_bytes():
    image, other = picture(7), picture(8)
    first, again = align(other, image), align(other, image)
    assert first.matrix.tobytes() == again.matrix.tobytes()
    assert first.similarity == again.similarity


def test_images_without_details_are_not_aligned():
    image = picture(9)
    for flat in (np.zeros_like(image), np.full((1, 1, 3), 7, np.uint8), np.full((70, 30, 1), 65535, np.uint16)):
        assert align(flat, image) is None
        assert align(image, flat) is None
        assert align(flat, flat) is None
    ramp = np.broadcast_to(np.arange(64, dtype=np.uint8)[:, None, None], (64, 64, 1)).copy()
    dot = np.zeros_like(image)
    dot[30, 30] = 255
    for odd in (ramp, dot, image[:3, :2], image[:1, :]):
        for pair in ((odd, image), (image, odd), (odd, odd)):
            found = align(*pair)
            assert found is None or 0 <= found.similarity < 1


def test_other_pixels_are_refused():
    with pytest.raises(InputError, match="images to align are uint8 or uint16"):
        align(np.zeros((8, 8, 1)), np.zeros((8, 8, 1), np.uint8))
    with pytest.raises(InputError, match=r"not uint8 \(8, 8\)"):
        align(np.zeros((8, 8, 1), np.uint8), np.zeros((8, 8), np.uint8))


def test_the_fast_similarity_is_that_of_its_definition():
    from memorisk.images.copies import alignment

    copy, source = (alignment._details(picture(seed, 40, 64))[0] for seed in (10, 11))
    pose = np.array([[0.9, -0.1, 4.0], [0.12, 0.95, -3.0], [0, 0, 1]])
    fast = alignment._overlay(copy, source, pose)
    import cv2

    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    laid = cv2.warpAffine(source.fine, pose[:2], (64, 64), flags=how).astype(float)
    both = (cv2.warpAffine(source.inside.astype(np.float32), pose[:2], (64, 64), flags=how) > 0.5) & copy.inside
    assert fast.overlap == pytest.approx(both.sum() / copy.inside.sum())
    one, other = copy.fine * both, laid * both
    noise = [0.001 * (values**2).sum() / both.sum() for values in (one, other)]
    assert len(fast.strengths) == len(alignment.WINDOWS)
    for strength, share in zip(fast.strengths, alignment.WINDOWS, strict=True):
        side, best = round(share * 64), -np.inf
        for y in range(0, 65 - side, 2):
            for x in range(0, 65 - side, 2):
                at = np.s_[y : y + side, x : x + side]
                n = both[at].sum()
                if n:
                    squares = ((one[at] ** 2).sum() + noise[0] * n) * ((other[at] ** 2).sum() + noise[1] * n)
                    r = (one[at] * other[at]).sum() / np.sqrt(squares)
                    best = max(best, np.sqrt(n / copy.inside.sum()) * np.arctanh(r))
        assert strength == pytest.approx(best, rel=1e-6)  # details are float32


def test_a_region_at_its_own_place_is_found_though_the_rest_lies_better_elsewhere():
    image, other = picture(12), picture(13)
    moved = np.roll(image, 20, axis=1)
    made = moved.copy()
    made[20:52, 4:36] = image[20:52, 4:36]  # a quarter of the area; more of the rest lies on the image moved
    alignments = [align(one, image) for one in (made, other)]
    assert alignments[0].strengths[-2] > 2 * alignments[1].strengths[-2]


def in_a_round_field(image):
    """Black outside a circle of the image's size."""
    height, width = image.shape[:2]
    y, x = np.ogrid[:height, :width]
    inside = (y - (height - 1) / 2) ** 2 + (x - (width - 1) / 2) ** 2 < (min(height, width) / 2) ** 2
    return (image // 8 + 110) * inside[..., None].astype(np.uint8)


def test_pixels_that_all_images_share_are_left_out():
    people = [in_a_round_field(picture(seed)) for seed in range(60)]
    shared = shared_pixels(people)
    assert not shared_pixels(picture(seed) for seed in range(60)).any()
    assert not shared_pixels(people[:29]).any()

    def strength(copy, source, mask):
        laid = align_details(copy_details(copy), source_details(source, mask))
        return 0.0 if laid is None else max(laid.strengths)

    others = list(zip(people[::2], people[1::2], strict=True))
    crops = [(seen_through(one, about_centre(one, scale=0.85)), one) for one in people[:20]]
    plain = [[strength(*pair, None) for pair in pairs] for pairs in (others, crops)]
    masked = [[strength(*pair, shared) for pair in pairs] for pairs in (others, crops)]
    assert min(plain[0]) > 1  # the edge is alike in any two people
    assert max(masked[0]) < 0.5
    assert min(masked[1]) > 1
    assert 0.1 < shared.mean() < 0.6
    laid = align_details(copy_details(crops[0][0]), source_details(people[0], shared))
    assert laid is not None
    assert laid.overlap < 1
    assert laid.words.startswith("85% of either side")


def test_the_cut_without_shared_pixels_confirms_copies_and_no_new_people():
    people = [in_a_round_field(picture(seed)) for seed in range(160)]
    shared = shared_pixels(people[:40])
    sources = [source_details(image, shared) for image in people[:40]]

    def strengths(copies):
        laid = [align_details(copy_details(copy), source) for copy, source in zip(copies, sources, strict=True)]
        return np.array([np.zeros(len(WINDOWS)) if one is None else one.strengths for one in laid])

    cut = alignment_cut(strengths(people[40:80]), strengths(people[80:120]), trials=300)
    assert not cut.confirmed(strengths(people[120:])).any()
    crops = [seen_through(image, about_centre(image, scale=0.85)) for image in people[:40]]
    assert cut.confirmed(strengths(crops)).all()
