"""The patients of a classifier run: filtered, with their images and losses, and marked; marks that compare shows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import memorisk
from memorisk.audits.classifier.marks import FILE, MARKS, read_marks, write_mark
from memorisk.audits.rendering import load_result
from memorisk.runs.errors import InputError
from memorisk.runs.folder import read_config
from memorisk.view.patients import ClassifierRun, Filters
from tests.audits.synthetic.making import digits
from tests.report.chromium import Chromium
from tests.view.conftest import ATTACK

LABELS = [f"<svg/onload={ATTACK}>", "'\"; {{7*7}}"]


@pytest.fixture(scope="module")
def classified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small audit of digits with hostile classes and patients."""
    root = tmp_path_factory.mktemp("classified")
    rows = []
    for row, image in enumerate(digits()[:60]):
        Image.fromarray(image[..., 0]).save(root / f"{row}.png")
        patient = f"<img src=x onerror={ATTACK}>{row // 2}"
        rows.append({"path": f"{row}.png", "patient": patient, "label": LABELS[row // 2 % 2]})
    pd.DataFrame(rows).to_csv(root / "images.csv", index=False)
    memorisk.audit_classifier(root / "images.csv", out=root / "runs" / "run", models=4, epochs=1, processes=1)
    return root / "runs" / "run"


@pytest.fixture
def seen(classified: Path) -> ClassifierRun:
    (classified / FILE).unlink(missing_ok=True)
    return ClassifierRun(classified, read_config(classified), "/run/x")


def test_filters_choose_by_class_flag_and_size(seen: ClassifierRun, classified: Path) -> None:
    table = load_result(classified).per_group
    every = seen.chosen(Filters(flagged=False))
    assert len(every) == len(table)
    m = table["M"].to_numpy()[every]
    assert (np.diff(m[np.isfinite(m)]) <= 0).all()
    chosen = seen.chosen(Filters(LABELS[0], False, float(np.nanmedian(m))))
    assert set(table["label"].to_numpy()[chosen]) == {LABELS[0]}
    assert (table["M"].to_numpy()[chosen] >= np.nanmedian(m)).all()
    assert len(seen.chosen(Filters(flagged=True))) == int(table["flagged"].sum())


def test_a_card_has_the_patients_images_and_every_models_loss(seen: ClassifierRun, classified: Path) -> None:
    card = next(card for card in seen.cards(seen.chosen(Filters(flagged=False))) if card.pictures)
    scores = pd.read_parquet(classified / "scores.parquet")
    for picture, strip in zip(card.pictures, card.strips, strict=True):
        own = scores[(scores["image"] == picture.image) & (scores["label"] == card.label)]
        assert len(strip.seen) == own["member"].sum()
        assert len(strip.seen) + len(strip.unseen) == len(own) == 4
        assert Path(picture.path).is_file()


def test_marks_are_kept_taken_away_and_shown_by_compare(seen: ClassifierRun, classified: Path, tmp_path: Path) -> None:
    card = seen.cards(seen.chosen(Filters(flagged=False)))[0]
    whom = card.label, card.group
    write_mark(classified, whom, "wrong label", given=True)
    write_mark(classified, whom, "reviewed", given=True)
    write_mark(classified, whom, "reviewed", given=True)
    assert read_marks(classified) == {whom: ("wrong label", "reviewed")}
    with pytest.raises(InputError, match="mark"):
        write_mark(classified, whom, "perhaps", given=True)
    found = memorisk.compare(classified, classified)
    row = found.per_group[(found.per_group["label"] == whom[0]) & (found.per_group["group"] == whom[1])].iloc[0]
    assert "wrong label" in row["marked_first"]
    found.save(tmp_path / "compared")
    assert "wrong label" in (tmp_path / "compared" / "report.html").read_text("utf-8")
    for mark in MARKS:
        write_mark(classified, whom, mark, given=False)
    assert not (classified / FILE).exists()
    assert "marked_first" not in memorisk.compare(classified, classified).per_group


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_patients_marks_and_runs_no_name(
    browser: Chromium, serving: Callable[[Path], str], seen: ClassifierRun, classified: Path, width: int
) -> None:
    link = serving(classified.parent)
    home = link.split("/?")[0]
    browser.open(link)
    key = browser.evaluate("document.querySelector('th a').getAttribute('href')")
    browser.open(f"{home}{key}/patients?flagged=0", width=width)
    assert browser.evaluate("document.querySelectorAll('.cards > li').length") == 12
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert browser.evaluate("[...document.images].filter(i => !i.complete || !i.naturalWidth).length") == 0
    browser.evaluate("document.querySelector('[data-mark=\"burnt-in text\"]').click()")
    kept = "new Promise(done => setInterval(() => document.querySelector('[aria-pressed=true]') && done(true), 20))"
    assert browser.evaluate(kept)
    assert list(read_marks(classified).values()) == [("burnt-in text",)]
    browser.evaluate("[...document.querySelectorAll('.bars a')][1].click()")
    browser.await_load()
    assert browser.evaluate("new URLSearchParams(location.search).get('label')") in LABELS
    assert browser.evaluate("document.title") != "hacked"
    assert browser.complaints() == []
    assert {url.split("/", 3)[2] for url in browser.requests()} == {home.split("/")[2]}
