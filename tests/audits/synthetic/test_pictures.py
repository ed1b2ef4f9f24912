"""The pictures of the synthetic report: each pair once, near pairs beside equal ones, mirrored ones mirrored."""

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.comparison.pictures import (
    MAX_PICTURES,
    MOST_AT_A_GLANCE,
    PICTURE_SIDE,
    aligned_gallery,
    at_a_glance,
    glance_gallery,
    picture_gallery,
    side_by_side,
)
from memorisk.audits.synthetic import run as audit_module
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.audits.synthetic.sections.pictures import Pictures, pair_pictures
from memorisk.report.blocks import MOST_BYTES, Gallery, Page, Paragraph, Section, data_uri
from memorisk.report.page import render_page
from memorisk.report.result import Result
from tests.audits.synthetic.heads import NAME, use_heads
from tests.audits.synthetic.making import parts, store_of

EQUAL, MIRRORED = 14, 3


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    """Of a set with exact copies of some training images, and mirrored ones with noise of others."""
    place = tmp_path_factory.mktemp("pictures")
    train, held, synthetic = parts()
    synthetic[:EQUAL] = train[:EQUAL]
    turned = train[EQUAL : EQUAL + MIRRORED, :, ::-1].astype(int)
    noise = np.random.default_rng(3).integers(-8, 9, turned.shape)
    synthetic[EQUAL : EQUAL + MIRRORED] = np.clip(turned + noise, 0, 255)
    kept: list[Pictures] = []

    def keep(*given) -> Pictures:
        """Make the pictures as the audit does, and look at them."""
        kept.append(pair_pictures(*given))
        return kept[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_module, "pair_pictures", keep)
        stores = store_of(train, place, "train"), store_of(synthetic, place, "set"), store_of(held, place, "held")
        audit_synthetic(
            stores[0], stores[1], held_out=stores[2], out=place / "run", plants=2, detector="pixels", gallery=True
        )
    return kept[0]


def test_no_pair_is_shown_twice(pictures: Pictures) -> None:
    shown = [pair for part in (pictures.exposed, pictures.equal, pictures.near, pictures.closest) for pair in part]
    assert len(shown) == len(set(shown)) > MAX_PICTURES
    copies = {f"set-{row:04d}" for row in range(EQUAL)}
    assert len([pair for pair in shown if pair[1] in copies]) == MAX_PICTURES
    assert not copies & {image for _, image in (*pictures.near, *pictures.closest)}


def test_mirrored_pairs_are_shown_with_the_difference_to_the_mirrored_image(pictures: Pictures) -> None:
    wanted = {(f"train-{row:04d}", f"set-{row:04d}") for row in range(EQUAL, EQUAL + MIRRORED)}
    assert wanted <= {*pictures.exposed, *pictures.near}
    for pair in wanted:
        picture = (pictures.exposed | pictures.near)[pair]
        assert picture.mirrored
        made = picture.pixels[..., :1].astype(int)
        assert made[9:, :8].max() <= 8 * picture.factor  # below the gap: what was added as noise
        assert np.abs(made[:8, :8] - made[:8, 9:]).max() > 8


def test_memorized_pairs_are_shown_where_they_are_not_yet(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    use_heads(monkeypatch)
    kept: list[Pictures] = []
    monkeypatch.setattr(audit_module, "pair_pictures", lambda *given: kept.append(pair_pictures(*given)) or kept[-1])
    train, held, synthetic = parts()
    moved = np.random.default_rng(5).integers(-60, 61, (20, 8, 8, 1))
    synthetic[:20] = np.clip(train[:20].astype(int) + moved, 0, 255)
    stores = [store_of(i, tmp_path, n) for i, n in ((train, "train"), (synthetic, "set"), (held, "held"))]
    table = pd.DataFrame(
        {"synthetic_image": stores[1].manifest.images[:20], "training_image": stores[0].manifest.images[:20]}
    )
    table.to_csv(tmp_path / "pairs.csv", index=False)
    how = {"plants": 0, "detector": (NAME,), "gallery": True, "paired": str(tmp_path / "pairs.csv")}
    found = audit_synthetic(stores[0], stores[1], held_out=stores[2], out=tmp_path / "run", **how)
    assert isinstance(found, Result)
    memorized = found.tables["paired"].query("memorized")
    assert len(memorized)
    (shown,) = kept
    wanted = set(zip(memorized["training_image"], memorized["image"], strict=True))
    elsewhere = {*shown.exposed, *shown.equal, *shown.near, *shown.closest}
    assert {*shown.paired} <= wanted - elsewhere
    assert len(shown.paired) == min(MAX_PICTURES, len(wanted - elsewhere))


def test_a_mirrored_difference_is_nothing_for_a_mirrored_copy() -> None:
    real = parts()[0][0]
    copy = real[:, ::-1]
    assert side_by_side(real, copy, mirrored=True).pixels[9:, :8, 0].max() == 0
    assert side_by_side(real, copy, mirrored=True).factor == 1
    np.testing.assert_array_equal(side_by_side(real, copy).pixels[9:, :8, :1], np.abs(real.astype(int) - copy))


def test_a_faint_difference_is_made_brighter_and_says_how_many_times() -> None:
    real = np.full((8, 8, 1), 100, np.uint8)
    other = real.copy()
    other[2:6, 2:6] += 7
    picture = side_by_side(real, other)
    assert picture.factor == 32, "7 x 32 is below white"
    assert set(np.unique(picture.pixels[9:, :8, 0])) == {0, 7 * 32}
    assert picture.difference_words == "difference 32 times brighter"
    other[2:6, 2:6] += 100
    assert side_by_side(real, other).factor == 2


@pytest.mark.parametrize("channels", [1, 3])
def test_what_lies_between_images_is_transparent_and_images_are_not(channels: int) -> None:
    picture = side_by_side(*np.random.default_rng(0).integers(0, 256, (2, 8, 8, channels), dtype=np.uint8))
    for pixels, opaque in ((picture.pixels, 3 * 64), (picture.row, 3 * 64)):
        assert pixels.shape[2] == channels + 1
        assert (pixels[..., channels] == 255).sum() == opaque
        assert set(np.unique(pixels[..., channels])) == {0, 255}


def test_a_report_of_sixty_pairs_shows_each_once_and_stays_below_6_mb() -> None:
    """Noise of 224 x 224 pixels is as hard to compress as pictures get."""
    large = side_by_side(*np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)).pixels
    uri = data_uri(large, side=PICTURE_SIDE)
    assert len(uri) < 4 / 3 * MOST_BYTES + 100
    small = side_by_side(*np.zeros((2, 8, 8, 1), dtype=np.uint8))
    kinds = ("exposed", "equal", "near", "closest", "paired")
    pairs = {kind: {(f"{kind}{n}", f"made{n}"): small for n in range(MAX_PICTURES)} for kind in kinds}
    shown = Pictures(**pairs, aligned={(f"real{n}", f"made{n}", ""): small for n in range(MAX_PICTURES)})
    blocks = [aligned_gallery(shown.aligned), glance_gallery(shown.gravest, "")]
    for chosen in pairs.values():
        blocks += picture_gallery(chosen, "Pairs", shown.gravest)
    page = render_page(Page(title="", lead=[], sections=[Section("", blocks, "a")]))
    n_pictures = page.count("data:image/")
    assert n_pictures == 60 + MOST_AT_A_GLANCE
    assert n_pictures * len(uri) + 500_000 < 6_000_000


def test_a_pair_that_is_only_the_closest_is_not_shown_next_to_copies() -> None:
    picture = side_by_side(*np.zeros((2, 8, 8, 1), dtype=np.uint8))
    none = {part: {} for part in ("exposed", "equal", "near", "paired", "aligned")}
    closest = {("real0", "made0"): picture, ("real1", "made1"): picture}
    assert [*Pictures(**none, closest=closest).gravest] == [*closest]
    assert [*Pictures(**none, closest=closest, singled=frozenset({"made1"})).gravest] == [("real1", "made1")]
    copied = Pictures(**none | {"near": {("real2", "made2"): picture}}, closest=closest)
    assert [*copied.gravest] == [("real2", "made2")]


def test_a_pair_of_the_first_screen_is_named_in_its_section_and_not_drawn_again() -> None:
    picture = side_by_side(*np.zeros((2, 8, 8, 1), dtype=np.uint8))
    pairs = {(f"real{n}", f"made{n}"): picture for n in range(MOST_AT_A_GLANCE + 2)}
    above, gallery = picture_gallery(pairs, "Equal pixels", at_a_glance(pairs))
    assert isinstance(above, Paragraph)
    assert above.text == "Equal pixels: 6 pairs are at the top of this page."
    assert isinstance(gallery, Gallery)
    assert len(gallery.items) == 2
    assert picture_gallery(at_a_glance(pairs), "Equal pixels", pairs) == [above]
    assert picture_gallery({}, "Equal pixels", pairs) == []
