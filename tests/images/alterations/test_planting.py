"""Planted copies: each kind changes pixels as it says, by the seed, and never its source."""

import numpy as np
import pytest

from memorisk.images.alterations.planting import plant_copy
from memorisk.images.alterations.plants import ALL_KINDS, PLANT_KINDS, find_plant_kind, planted_kinds
from memorisk.images.copies.duplicates import details, thumbnail
from memorisk.runs.errors import InputError

SIDE = 48


def photograph(seed: int, channels: int = 3, dtype: type = np.uint8) -> np.ndarray:
    """A smooth scene with an edge, nowhere symmetric."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    a, b, c = rng.uniform(1, 6, 3)
    scene = 0.5 + 0.25 * np.sin(a * 3 * x + b * y) + 0.2 * np.cos(c * 2 * y * x) + 0.2 * (x + 2 * y > 1.1)
    scene = np.clip(scene, 0, 1)[..., None] * np.linspace(1, 0.6, channels)
    return np.rint(scene * np.iinfo(dtype).max).astype(dtype)


def copies(name: str, n: int = 30, **kind) -> list:
    return [
        plant_copy(find_plant_kind(name), photograph(i, **kind), photograph(i + 100, **kind), np.random.default_rng(i))
        for i in range(n)
    ]


def test_the_seven_kinds_of_methods():
    assert list(PLANT_KINDS)[:7] == ["exact", "flipped", "rotated", "noised", "jpeg", "cropped", "pasted"]
    assert set(PLANT_KINDS) < set(ALL_KINDS)
    assert planted_kinds(()) == tuple(PLANT_KINDS)
    assert planted_kinds(("blended", "pasted", "exact")) == ("exact", "pasted", "blended")
    with pytest.raises(InputError, match="Did you mean 'flipped'"):
        find_plant_kind("fliped")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", list(ALL_KINDS))
def test_every_kind_changes_pixels_but_the_exact_one(name, channels, dtype):
    if name == "recoloured" and channels == 1:
        pytest.skip("a grey image has no colours to change")
    image, base = photograph(0, channels, dtype), photograph(1, channels, dtype)
    before = image.copy(), base.copy()
    first, again, other = (plant_copy(find_plant_kind(name), image, base, np.random.default_rng(s)) for s in (0, 0, 1))
    assert first is not None
    assert again is not None
    assert other is not None
    assert (first.pixels.shape, first.pixels.dtype) == (image.shape, image.dtype)
    assert np.array_equal(first.pixels, again.pixels)
    assert first.parameter == again.parameter
    assert np.array_equal(first.pixels, image) == (name == "exact")
    assert (first.parameter == "") == (name == "exact")
    if name not in ("exact", "flipped", "inverted"):
        assert not np.array_equal(first.pixels, other.pixels)
    assert np.array_equal(image, before[0])
    assert np.array_equal(base, before[1])


def test_a_shrunken_copy_lies_whole_in_the_second_image():
    image, base = photograph(0), np.full_like(photograph(0), 7)
    shares = set()
    for seed in range(20):
        copy = plant_copy(find_plant_kind("shrunken"), image, base, np.random.default_rng(seed))
        assert copy is not None
        (rows, columns), share = np.nonzero((copy.pixels != 7).any(axis=-1)), float(copy.parameter.split("%")[0]) / 100
        height, width = rows.max() - rows.min() + 1, columns.max() - columns.min() + 1
        assert abs(height - share * image.shape[0]) <= 1
        assert abs(width - share * image.shape[1]) <= 1
        small = copy.pixels[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].astype(float)
        assert np.abs(small.mean(axis=(0, 1)) - image.mean(axis=(0, 1))).max() < 2
        shares.add(copy.parameter)
    assert len(shares) > 10


def test_flips_are_both_ways_and_undo_themselves():
    seen = set()
    for i, copy in enumerate(copies("flipped")):
        axis = {"left to right": 1, "top to bottom": 0}[copy.parameter]
        seen.add(axis)
        assert np.array_equal(np.flip(copy.pixels, axis), photograph(i))
    assert seen == {0, 1}


def test_rotation_turns_by_the_angle_it_names():
    from scipy.ndimage import rotate

    for i, copy in enumerate(copies("rotated", 12)):
        degrees = float(copy.parameter.split()[0])
        assert 5 <= abs(degrees) <= 20
        turned = [rotate(photograph(i)[..., 0].astype(float), d, reshape=False, order=1) for d in (degrees, -degrees)]
        middle = slice(SIDE // 4, -SIDE // 4)
        gaps = [np.abs(t - copy.pixels[..., 0])[middle, middle].mean() for t in turned]
        assert min(gaps) < 1.0  # the name has one decimal
        assert min(gaps) < max(gaps) / 3
        assert gaps.index(min(gaps)) == 0


def test_noise_has_the_deviation_it_names():
    for i, copy in enumerate(copies("noised", 12, channels=1)):
        share = float(copy.parameter.split()[1])
        assert ALL_KINDS["noised"].limits[0] <= share <= ALL_KINDS["noised"].limits[1]
        inside = (photograph(i, 1) > 90) & (photograph(i, 1) < 165)  # nothing is clipped there
        gap = (copy.pixels.astype(float) - photograph(i, 1))[inside] / 255
        assert gap.std() == pytest.approx(share, rel=0.2)


def test_lower_quality_changes_more():
    found = copies("jpeg")
    quality = np.array([int(c.parameter.split()[1]) for c in found])
    gap = [np.abs(c.pixels.astype(float) - photograph(i)).mean() for i, c in enumerate(found)]
    assert quality.min() >= 10
    assert quality.max() <= 70
    assert np.corrcoef(quality, gap)[0, 1] < -0.5


def test_a_crop_is_a_window_of_its_source():
    y, x = np.mgrid[:SIDE, :SIDE].astype(np.uint8)
    ramp = np.stack([y * 4, x * 4, y * 0], axis=-1)
    for seed in range(10):
        copy = plant_copy(find_plant_kind("cropped"), ramp, ramp, np.random.default_rng(seed))
        assert copy is not None
        share = float(copy.parameter.split("%")[0]) / 100
        steps = np.diff(copy.pixels[..., 0].astype(float), axis=0) / 4
        assert steps[5:-5].mean() == pytest.approx(share, abs=0.02)
        assert 0.74 < share < 0.96


def test_a_paste_holds_both_images():
    for i, copy in enumerate(copies("pasted")):
        image, base = photograph(i), photograph(i + 100)
        own, new = (copy.pixels == image).all(-1), (copy.pixels == base).all(-1)
        assert (own | new).all()
        area = float(copy.parameter.split("%")[0]) / 100
        assert ALL_KINDS["pasted"].limits[0] ** 2 - 0.02 <= area <= ALL_KINDS["pasted"].limits[1] ** 2 + 0.02
        assert (~new).mean() <= area + 0.01


def test_values_are_exchanged_bent_and_counted_within_their_own_range():
    y, x = np.mgrid[:SIDE, :SIDE]
    image = (20 + 2 * (y + x))[..., None].astype(np.uint8)
    made = {
        name: plant_copy(find_plant_kind(name), image, image, np.random.default_rng(0))
        for name in ("inverted", "toned", "posterised")
    }
    for copy in made.values():
        assert copy is not None
        assert (copy.pixels.min(), copy.pixels.max()) == (image.min(), image.max())
    assert np.array_equal(made["inverted"].pixels.astype(int), 20 + 2 * (2 * (SIDE - 1)) + 20 - image.astype(int))
    assert len(np.unique(made["posterised"].pixels)) == int(made["posterised"].parameter.split()[0])
    order = np.argsort(image.ravel(), kind="stable")
    assert (np.diff(made["toned"].pixels.ravel()[order].astype(int)) >= 0).all()


def test_a_shift_moves_whole_pixels_and_repeats_borders():
    for i, copy in enumerate(copies("shifted", 12)):
        down, right = (int(part.split()[0]) for part in copy.parameter.split(","))
        assert 0 < abs(down) <= round(0.2 * SIDE)
        assert 0 < abs(right) <= round(0.2 * SIDE)
        padded = np.pad(photograph(i), ((abs(down),) * 2, (abs(right),) * 2, (0, 0)), mode="edge")
        top, left = abs(down) - down, abs(right) - right
        assert np.array_equal(copy.pixels, padded[top : top + SIDE, left : left + SIDE])


def test_a_resized_copy_loses_details_and_keeps_places():
    for i, copy in enumerate(copies("resized", 12)):
        gaps = [np.abs(np.diff(image.astype(float), axis=0)).max() for image in (photograph(i), copy.pixels)]
        assert gaps[1] < gaps[0]
        assert np.abs(copy.pixels.astype(float) - photograph(i)).mean() < 8


def test_half_a_redrawn_copy_is_its_source_and_half_another_image():
    parts = {"upper half": np.s_[:16], "lower half": np.s_[-16:], "left half": np.s_[:, :16],
             "right half": np.s_[:, -16:]}  # fmt: skip
    opposite = dict(zip(parts, ("lower half", "upper half", "right half", "left half"), strict=True))
    made = copies("redrawn")
    assert {copy.parameter for copy in made} == set(parts)
    for i, copy in enumerate(made):
        drawn, left = parts[copy.parameter], parts[opposite[copy.parameter]]
        assert np.array_equal(copy.pixels[drawn], photograph(i + 100)[drawn])
        assert np.array_equal(copy.pixels[left], photograph(i)[left])


def test_colours_change_and_grey_images_have_none():
    made = copies("recoloured")
    for i, copy in enumerate(made):
        if copy.parameter == "grey":
            assert (copy.pixels == copy.pixels[..., :1]).all()
        else:
            order = [int(channel) - 1 for channel in copy.parameter.split()[1:]]
            assert np.array_equal(copy.pixels, photograph(i)[..., order])
    assert {copy.parameter == "grey" for copy in made} == {True, False}
    rng, grey = np.random.default_rng(0), np.repeat(photograph(0, 1), 3, axis=-1)
    for image in (photograph(0, 1), grey):
        assert plant_copy(find_plant_kind("recoloured"), image, image, rng) is None


def test_a_blend_holds_more_of_its_source():
    for i, copy in enumerate(copies("blended", 12)):
        share = float(copy.parameter.split("%")[0]) / 100
        mixed = share * photograph(i) + (1 - share) * photograph(i + 100)
        assert 0.6 <= share <= 0.8
        assert np.abs(copy.pixels - mixed).max() < 2  # the parameter is rounded


def test_an_image_of_one_value_or_that_a_kind_leaves_alone_is_given_up():
    rng = np.random.default_rng(0)
    grey = np.full((SIDE, SIDE, 1), 7, np.uint8)
    assert all(plant_copy(kind, grey, photograph(0, 1), rng) is None for kind in ALL_KINDS.values())
    cross = np.zeros((SIDE, SIDE, 1), np.uint8)
    cross[SIDE // 2 - 1 : SIDE // 2 + 1] = cross[:, SIDE // 2 - 1 : SIDE // 2 + 1] = 200
    assert plant_copy(find_plant_kind("flipped"), cross, cross, rng) is None
    assert plant_copy(find_plant_kind("pasted"), photograph(0), photograph(0), rng) is None
    assert plant_copy(find_plant_kind("rotated"), cross, cross, rng) is not None


def test_pixels_of_another_kind_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="uint8 or uint16"):
        plant_copy(find_plant_kind("exact"), photograph(0).astype(float), photograph(0), rng)
    with pytest.raises(InputError, match="the second image is"):
        plant_copy(find_plant_kind("exact"), photograph(0), photograph(0, 1), rng)


def test_most_copies_still_show_their_source():
    """A crop or a turn is too much for the details of thumbnails; the other kinds are not."""
    for name in ("exact", "noised", "jpeg"):
        both = [
            details(np.stack([thumbnail(photograph(i)), thumbnail(c.pixels)])) for i, c in enumerate(copies(name, 10))
        ]
        assert np.median([a @ b for a, b in both]) > 0.5
