"""The pictures of the synthetic report: each pair once, near pairs beside equal ones, mirrored ones mirrored."""

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.comparison.pictures import MAX_PICTURES, side_by_side
from memorisk.audits.synthetic import run as audit_module
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.audits.synthetic.sections.pictures import Pictures, pair_pictures
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
    assert wanted <= pictures.mirrored
    for pair in wanted:
        picture = (pictures.exposed | pictures.near)[pair]
        made = picture.pixels.astype(int)
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
    assert side_by_side(real, copy, mirrored=True).pixels[9:, :8].max() == 0
    assert side_by_side(real, copy, mirrored=True).factor == 1
    np.testing.assert_array_equal(side_by_side(real, copy).pixels[9:, :8], np.abs(real.astype(int) - copy))


def test_a_faint_difference_is_made_brighter_and_says_how_many_times() -> None:
    real = np.full((8, 8, 1), 100, np.uint8)
    other = real.copy()
    other[2:6, 2:6] += 7
    picture = side_by_side(real, other)
    assert picture.factor == 32, "7 x 32 is below white"
    assert set(np.unique(picture.pixels[9:, :8])) == {0, 7 * 32}
    assert picture.difference_words == "difference 32 times brighter"
    other[2:6, 2:6] += 100
    assert side_by_side(real, other).factor == 2
