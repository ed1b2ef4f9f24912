"""The patients of a classifier run: filtered, with their images and losses, and marked; marks that compare shows."""

from collections.abc import Callable
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import memorisk
from memorisk.audits.classifier.marks import FILE, MARKS, read_marks, write_mark
from memorisk.audits.rendering import load_result, render_again
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
        assert len(strip.members) == own["member"].sum()
        assert len(strip.members) + len(strip.others) == len(own) == 4
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


def losses_of(run: Path, out: Path, **settings) -> memorisk.Result:
    """A later audit of the same patients: of their losses alone, which trains nothing."""
    return memorisk.audit_losses(run / "scores.parquet", out=out, **settings)


def test_a_report_shows_marks_and_escapes_whom(seen: ClassifierRun, classified: Path, tmp_path: Path) -> None:
    card = seen.cards(seen.chosen(Filters(flagged=False)))[0]
    write_mark(classified, (card.label, card.group), "burnt-in text", given=True)
    page = render_again(classified, out=tmp_path / "report.html").read_text("utf-8")
    told = page.split("that a person marked")[1].split("</table>")[0]
    assert "burnt-in text" in told
    assert escape(card.group, quote=False).split("=")[0] in told
    assert "<img src=x" not in page
    hidden = render_again(classified, out=tmp_path / "redacted.html", redact=True).read_text("utf-8")
    assert "burnt-in text" in hidden
    assert card.group not in hidden
    assert escape(card.group) not in hidden
    write_mark(classified, (card.label, card.group), "burnt-in text", given=False)
    assert "a person marked" not in render_again(classified, out=tmp_path / "report.html").read_text("utf-8")


def test_a_later_audit_takes_marks_over_of_the_patients_that_it_has(
    seen: ClassifierRun, classified: Path, tmp_path: Path
) -> None:
    cards = seen.cards(seen.chosen(Filters(flagged=False)))
    one, other = ((card.label, card.group) for card in cards[:2])
    review = tmp_path / "marks.csv"
    for whom, mark in ((one, "duplicate"), (one, "reviewed"), (other, "wrong label")):
        write_mark(classified, whom, mark, given=True)
    (classified / FILE).replace(review)
    before = review.read_bytes()
    review.write_bytes(before + b"nobody,of these,reviewed\n")

    losses_of(classified, tmp_path / "later", review=review)
    assert read_marks(tmp_path / "later") == {one: ("duplicate", "reviewed"), other: ("wrong label",)}
    assert "duplicate, reviewed" in (tmp_path / "later" / "report.html").read_text("utf-8")
    write_mark(tmp_path / "later", other, "wrong label", given=False)
    losses_of(classified, tmp_path / "later", review=review)
    assert read_marks(tmp_path / "later") == {one: ("duplicate", "reviewed")}, "its own marks stand"

    key = tmp_path / "key"
    key.write_bytes(b"a" * 32)
    key.chmod(0o600)
    hidden = losses_of(classified, tmp_path / "hidden", review=review, pseudonymise=True, pseudonym_key=key)
    kept = read_marks(tmp_path / "hidden")
    assert sorted(kept.values()) == [("duplicate", "reviewed"), ("wrong label",)]
    assert {group for _, group in kept} <= set(hidden.per_group["group"])
    assert not {one[1], other[1]} & {group for _, group in kept}
    losses_of(classified, tmp_path / "again", review=tmp_path / "hidden" / FILE, pseudonymise=True, pseudonym_key=key)
    assert read_marks(tmp_path / "again") == kept


@pytest.mark.parametrize("review", ["none.csv", "images.csv"])
def test_a_review_that_is_none_is_refused_before_anything_is_written(
    classified: Path, tmp_path: Path, review: str
) -> None:
    path = classified.parent.parent / review
    with pytest.raises(InputError, match=review.replace(".", r"\.")):
        losses_of(classified, tmp_path / "later", review=path)
    with pytest.raises(InputError, match=review.replace(".", r"\.")):
        memorisk.audit_classifier(classified.parent.parent / "images.csv", out=tmp_path / "later", review=path)
    assert not (tmp_path / "later").exists()


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
