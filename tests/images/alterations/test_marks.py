"""Marks are burnt in exactly as METHODS section 2 says, at any resolution, in training as in probing."""

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.feature.marks import choose_controls, choose_mark
from memorisk.audits.feature.options import MarkOptions
from memorisk.images.alterations.mark_controls import make_controls, roughness, similar_text
from memorisk.images.alterations.marks import LETTERS, Mark, burn, burn_stored, letter, pattern, text_mark
from memorisk.runs.errors import InputError
from tests.thorough import thorough

A = [[0, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 1]]


def images(n=3, side=28, channels=1, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, channels), dtype=np.uint8)


def test_the_letter_is_methods_own():
    assert set(LETTERS) == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert all(letter(name).shape == (5, 5) for name in LETTERS)
    np.testing.assert_array_equal(letter("A").values, A)
    assert len({letter(name).values.tobytes() for name in LETTERS}) == 26


@pytest.mark.parametrize("channels", [1, 3])
def test_one_pixel_from_the_corner_opaque_and_nothing_else_changes(channels):
    stored = images(channels=channels)
    marked = burn_stored(stored, letter("A"))
    np.testing.assert_array_equal(
        marked[:, 1:6, 1:6], np.broadcast_to(255 * np.array(A)[None, ..., None], marked[:, 1:6, 1:6].shape)
    )
    rest = np.ones((28, 28), dtype=bool)
    rest[1:6, 1:6] = False
    np.testing.assert_array_equal(marked[:, rest], stored[:, rest])
    assert marked.dtype == np.uint8


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("opacity", [1.0, 0.5, 0.0])
def test_the_mark_in_training_is_the_mark_in_probing(dtype, opacity):
    """Stored with the mark and then scaled, or scaled and then marked: the same but for the levels' rounding."""
    top = np.iinfo(dtype).max
    stored = (images().astype(np.float64) * (top / 255)).astype(dtype)
    mark = letter("E").at(opacity)
    trained = burn_stored(stored, mark).astype(np.float32) / np.float32(top)
    probed = burn(stored.astype(np.float32) / np.float32(top), mark)
    np.testing.assert_allclose(trained, probed, atol=0 if opacity in (0.0, 1.0) else 0.51 / top)
    if opacity == 0:
        np.testing.assert_array_equal(burn_stored(stored, mark), stored)


def test_places_and_scale():
    blank = np.zeros((1, 20, 30, 1), dtype=np.float32)
    mark = Mark("dot", np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    places = {"top-left": (1, 1), "top-right": (1, 26), "bottom-left": (17, 1), "bottom-right": (17, 26)}
    for place, corner in (places | {"centre": (9, 13), (4, 7): (4, 7)}).items():
        found = np.argwhere(burn(blank, Mark("dot", mark.values, mark.alpha, place))[0, ..., 0])
        assert tuple(found.min(axis=0)) == corner
        assert len(found) == 6
    assert letter("I").scaled(3).shape == (15, 15)
    assert letter("I").scaled(3).ink == 9 * letter("I").ink
    with pytest.raises(InputError, match="does not fit images of 4 x 4"):
        burn(np.zeros((1, 4, 4, 1), np.float32), letter("A"))


@pytest.mark.parametrize("name", ["E", thorough("I"), "A", "K", thorough("T")])
def test_matched_controls_have_the_marks_pixels_in_another_order_and_its_roughness(name):
    mark = letter(name)
    controls = make_controls(mark, 199, seed=1)
    assert len({c.values.tobytes() for c in controls} | {mark.values.tobytes()}) == 200
    assert {c.ink for c in controls} == {mark.ink}
    assert {c.lit for c in controls} == {mark.lit}
    rough = np.array([roughness(c) for c in controls])
    shuffled = np.array([roughness(c) for c in make_controls(mark, 199, kind="shuffled", seed=1)])
    wanted = np.array(roughness(mark))
    assert np.abs(rough - wanted).sum(axis=1).mean() < 0.2 * np.abs(shuffled - wanted).sum(axis=1).mean()
    again = make_controls(mark, 199, seed=1)
    assert all((a.values == b.values).all() for a, b in zip(controls, again, strict=True))


def test_roughness_counts_edges():
    values = np.array([[1, 0, 1], [1, 1, 1]], np.float32)
    assert roughness(Mark("x", values, np.ones_like(values))) == (2.0, 1.0)


def test_large_and_coloured_patches_keep_their_pixels(tmp_path):
    rng = np.random.default_rng(0)
    rgba = np.concatenate([rng.integers(0, 256, (24, 30, 3)), rng.choice([0, 255], (24, 30, 1))], axis=2).astype(
        np.uint8
    )
    Image.fromarray(rgba, "RGBA").save(tmp_path / "logo.png")
    mark = choose_mark(MarkOptions(mark=str(tmp_path / "logo.png")), "top-left")
    assert mark.values.shape == (24, 30, 3)
    np.testing.assert_array_equal(np.rint(mark.alpha * 255), rgba[..., 3])
    pixels = np.dstack([mark.values, mark.alpha]).reshape(-1, 4)
    for control in make_controls(mark, 5, seed=0):
        own = np.dstack([control.values, control.alpha]).reshape(-1, 4)
        np.testing.assert_array_equal(own[np.lexsort(own.T)], pixels[np.lexsort(pixels.T)])
    colour = burn(np.full((1, 40, 40, 3), 0.5, np.float32), mark)
    shown = rgba[..., 3] == 255
    np.testing.assert_allclose(colour[0, 1:25, 1:31][shown], rgba[shown][:, :3] / 255, atol=1e-6)
    assert (colour[0, 1:25, 1:31][~shown] == 0.5).all()
    with pytest.raises(InputError, match="has colours, the images have 1 channel"):
        burn(np.zeros((1, 40, 40, 1), np.float32), mark)


def test_texts_of_the_same_shape_closest_in_ink():
    mark = text_mark("Doe, JANE 1961", height=14)
    assert mark.values.min() == 1
    assert 0 < mark.alpha.max() <= 1
    controls = make_controls(mark, 99, seed=0, render=lambda text: text_mark(text, height=14))
    assert len({c.name for c in controls}) == 99
    for control in controls:
        family, rest = control.name.split(", ")
        given, year = rest.split(" ")
        assert (len(family), family.istitle(), len(given), given.isupper(), len(year), year.isdigit()) == (
            3,
            True,
            4,
            True,
            4,
            True,
        )
    ink = np.array([c.ink for c in controls]) / mark.ink
    assert ink.min() < 1 < ink.max()
    assert np.abs(np.log(ink)).max() < 0.05
    boxed = text_mark("Doe", background=True)
    assert boxed.alpha.min() == 1
    assert boxed.values.min() == 0


def test_similar_texts_keep_all_but_letters_and_digits():
    rng = np.random.default_rng(0)
    text = similar_text("MRN: 00-17_x/Őz", rng)
    assert [c if not c.isalnum() else "." for c in text] == [c if not c.isalnum() else "." for c in "MRN: 00-17_x/Őz"]


def test_controls_from_files(tmp_path):
    (tmp_path / "names.txt").write_text("ANN\nDOE\nJIM\n")
    options = MarkOptions(mark="text:DOE", controls=str(tmp_path / "names.txt"))
    mark = choose_mark(options, "top-left")
    assert [c.name for c in choose_controls(mark, options, "top-left", 0)] == ["ANN", "JIM"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mark": "a"}, "neither a letter A to Z"),
        ({"mark": "AB"}, "neither a letter A to Z"),
        ({"mark": "text: "}, "the text of a mark is one line"),
        ({"mark": "pattern:x"}, "needs a whole number"),
        ({"mark": "A", "controls": "match"}, "neither matched, shuffled, letters, random, nor a file"),
        ({"mark": "text:A", "font": "none.ttf"}, "the font file none.ttf does not exist"),
        ({"mark": "A", "mark_scale": 0}, "mark scale is 0"),
        ({"mark": "A", "opacity": 2.0}, "opacity is 2.0"),
    ],
)
def test_what_is_no_mark_is_refused(options, message, tmp_path):
    from pathlib import Path

    given = MarkOptions(**{k: Path(v) if k == "font" else v for k, v in options.items()})
    with pytest.raises(InputError, match=message):
        choose_controls(choose_mark(given, "top-left"), given, "top-left", 0)


def test_a_mark_without_another_arrangement_is_refused():
    flat = Mark("flat", np.ones((3, 3), np.float32), np.ones((3, 3), np.float32))
    with pytest.raises(InputError, match="no other arrangement of its pixels"):
        make_controls(flat, 9)
    assert len(make_controls(flat, 9, kind="random")) == 9
    assert len(make_controls(letter("A"), 99, kind="letters")) == 25


def test_random_patterns_are_uniform_and_seeded():
    values = pattern((40, 40), seed=3).values
    np.testing.assert_array_equal(values, pattern((40, 40), seed=3).values)
    assert abs(values.mean() - 0.5) < 4 / np.sqrt(12 * values.size)
    assert set(np.unique(pattern((9, 9), seed=0, binary=True).values)) == {0, 1}
