"""Copies of training images that the generator saw in another form than the audit."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.comparison.other_forms import INVERTED, alike_in_other_forms, compared_forms, other_forms
from memorisk.images.alterations.plants import ALL_KINDS
from memorisk.images.options import ImageOptions, Resize
from memorisk.images.pixels import resize_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.workload import no_progress

_SIZE, _COPIES = 32, 3


def _people(n: int, seed: int, *, width: int = 72) -> list[np.ndarray]:
    """Draw smooth images of ``n`` people, 48 pixels high."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (n, 8, 12), dtype=np.uint8)
    return [np.asarray(Image.fromarray(one).resize((width, 48), Image.Resampling.BICUBIC)) for one in coarse]


def _store(images: list[np.ndarray], folder: Path, options: ImageOptions) -> ImageStore:
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:03d}.png")
    return build_store(load_manifest(folder, options), options)


@pytest.mark.parametrize(("audited", "seen"), [("squash", "crop"), ("squash", "pad"), ("crop", "squash")])
def test_copies_in_another_form_are_counted_by_their_rule(tmp_path: Path, audited: Resize, seen: Resize) -> None:
    people, others = _people(60, 0), _people(40, 1)
    options = ImageOptions(size=_SIZE, resize=audited, store=tmp_path / "cache")
    train = _store(people, tmp_path / "train", options)
    drawn = [resize_image(image[..., None], _SIZE, seen)[..., 0] for image in [*people[:_COPIES], *others]]
    synthetic = _store(drawn, tmp_path / "set", options)
    forms = other_forms([train], options, no_progress)
    assert set(forms) == {INVERTED, "squash", "crop", "pad"} - {audited}
    assert alike_in_other_forms(synthetic, forms, frozenset(), no_progress)[0] == {seen: _COPIES}
    known = frozenset((row, row) for row in range(_COPIES))
    assert alike_in_other_forms(synthetic, forms, known, no_progress)[0] == {}
    honest = _store(drawn[_COPIES:], tmp_path / "honest", options)
    assert alike_in_other_forms(honest, forms, frozenset(), no_progress)[0] == {}
    assert compared_forms(forms, len(drawn), 5) == 3 * (60 * 59 // 2 + 60 * len(drawn)) + 60 * 5


@pytest.mark.parametrize(("width", "forms"), [(72, {INVERTED, "crop", "pad"}), (48, {INVERTED})])
def test_images_in_rows_are_seen_to_be_oblong(tmp_path: Path, width: int, forms: set[str]) -> None:
    rows = []
    for image in _people(4, 0, width=width):
        Image.fromarray(image).save(buffer := BytesIO(), "PNG")
        rows.append({"bytes": buffer.getvalue(), "path": None})
    (tmp_path / "data").mkdir()
    pd.DataFrame({"image": rows, "label": [0, 1, 0, 1]}).to_parquet(tmp_path / "data" / "train-00000-of-00001.parquet")
    options = ImageOptions(size=_SIZE, store=tmp_path / "cache")
    train = build_store(load_manifest(tmp_path, options), options)
    assert set(other_forms([train], options, no_progress)) == forms


def test_inverted_copies_are_counted(tmp_path: Path) -> None:
    options = ImageOptions(store=tmp_path / "cache")
    train = _store(people := _people(60, 0), tmp_path / "train", options)
    synthetic = _store([*(255 - one for one in people[:_COPIES]), *_people(40, 1)], tmp_path / "set", options)
    forms = other_forms([train], options, no_progress)
    kinds = [ALL_KINDS[name] for name in ("inverted", "exact", "flipped")]
    copies = [
        kind.make(train.images[row], train.images[row], np.random.default_rng(0), ())
        for kind in kinds
        for row in (4, 5)
    ]
    plants = np.stack([pixels for pixels, _ in copies])
    counts, inverted = alike_in_other_forms(synthetic, forms, frozenset(), no_progress, plants)
    assert counts == {INVERTED: _COPIES}
    assert inverted.tolist() == [True, True, False, False, False, False]
    assert forms[INVERTED][0].images.nbytes == 0


@pytest.mark.parametrize(("width", "size"), [(48, _SIZE), (72, None)])
def test_square_images_and_images_of_their_own_size_have_one_size(tmp_path: Path, width: int, size: int | None) -> None:
    options = ImageOptions(size=size, store=tmp_path / "cache")
    train = _store(_people(3, 0, width=width), tmp_path / "train", options)
    assert set(other_forms([train], options, no_progress)) == {INVERTED}
