"""Figure 7: pictures only where they were asked for, the typical ones of each class, and never an id."""

import base64
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.classifier.finished_run import open_finished
from memorisk.audits.classifier.run import audit_classifier
from memorisk.images.alterations.interventions import edges_only
from memorisk.report.blocks import Gallery
from memorisk.report.page import render_page
from memorisk.studies.rare_distinctive.config import read_study
from memorisk.studies.rare_distinctive.figures import PICTURES, figure_7
from memorisk.studies.rare_distinctive.page import rarity_page
from memorisk.studies.rare_distinctive.results import StudyRuns
from memorisk.studies.rare_distinctive.tables import study_tables

URI = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(tmp_path_factory.getbasetemp() / "pictures-cache"))
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, _cache: None) -> StudyRuns:
    out = tmp_path_factory.mktemp("pictures") / "cell"
    audit_classifier(
        "digits", out=out, models=4, epochs=1, processes=1, discard_weights=True, intervene="edges-only", classes=["8"]
    )
    return StudyRuns(cells={("CNN", "digits <b>"): out}, pictured=frozenset({"digits <b>"}))


def shown(runs: StudyRuns) -> Gallery:
    gallery = figure_7(runs)[1]
    assert isinstance(gallery, Gallery)
    return gallery


def pixels(uri: str) -> np.ndarray:
    """An 8 x 8 digit back from its enlarged picture."""
    found = URI.fullmatch(uri)
    assert found is not None
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(found[1]))))
    assert picture.shape == (160, 160)
    return picture[::20, ::20]


def test_the_images_nearest_to_the_median_of_their_class(runs: StudyRuns) -> None:
    folder = runs.cells["CNN", "digits <b>"]
    images = pd.read_parquet(folder / "per_image.parquet").dropna(subset=["M"])
    store = open_finished(folder, device="cpu").store
    row = {name: i for i, name in enumerate(store.manifest.images)}
    means = pd.read_parquet(folder / "per_class.parquet").set_index("label")["mean"].sort_values(ascending=False)
    expected = []
    for label in means.index:
        own = images[images["label"] == label]
        far = (own["M"] - own["M"].median()).abs().sort_values(kind="stable").index[:PICTURES]
        rows = [row[own.loc[i, "image"]] for i in far]
        expected += [store.images[r][..., 0] for r in rows]
        if label == "8":
            expected += list(edges_only(np.stack([store.images[r] for r in rows]))[..., 0])
    items = shown(runs).items
    assert len(items) == len(expected) == PICTURES * 11
    for item, image in zip(items, expected, strict=True):
        np.testing.assert_array_equal(pixels(item.data_uri), image)


def test_no_picture_unless_asked_for_and_no_id_ever(runs: StudyRuns) -> None:
    tables = study_tables(runs, draws=9)
    page = render_page(rarity_page(runs, tables))
    assert len(URI.findall(page)) == PICTURES * 11
    ids = pd.read_parquet(runs.cells["CNN", "digits <b>"] / "per_image.parquet")["image"]
    assert not [name for name in ids if f">{name}<" in page]
    assert "This page holds images, as requested, and no id." in page
    without = render_page(rarity_page(replace(runs, pictured=frozenset()), tables))
    assert not URI.findall(without)
    assert "This page holds no image and no id." in without


def test_images_that_are_gone_are_told(runs: StudyRuns, tmp_path: Path) -> None:
    gone = replace(runs, cells={("CNN", "digits <b>"): tmp_path / "gone"})
    page = render_page(rarity_page(gone, study_tables(gone)))
    assert "Its images cannot be shown" in page
    assert not URI.findall(page)


def test_the_user_chooses_by_data_set() -> None:
    sets = {"a": {"images": "digits", "gallery": True}, "b": {"images": "digits"}}
    hidden = {"c": {"images": "digits", "gallery": True, "redact": True}}
    asked = {"architectures": {"CNN": {}}, "datasets": sets | hidden}
    assert read_study(asked).pictured == {"a"}
    assert read_study({**asked, "settings": {"gallery": True}}).pictured == {"a", "b"}
