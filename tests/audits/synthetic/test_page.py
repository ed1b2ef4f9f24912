"""The page of a synthetic audit in a real browser: it fits, is readable, asks for nothing, and escapes every name."""

import re
from pathlib import Path

import pandas as pd
import pytest

from memorisk.audits.comparison import second_look
from memorisk.audits.comparison.terms import Terms, p_words, share
from memorisk.audits.synthetic import analysis
from memorisk.audits.synthetic.run import audit_synthetic
from tests.audits.synthetic.heads import NAME, use_heads
from tests.audits.synthetic.making import N_SYNTHETIC, N_TRAIN, parts, store_of
from tests.report.chromium import Chromium
from tests.report.conftest import browser
from tests.report.test_page_browser import CONTRAST

pytestmark = pytest.mark.usefixtures("drawn")

__all__ = ["browser"]  # the fixture
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A failed audit of patients with hostile names and pictures; one without patients or held-out images; one by two
    detectors, of images whose origin is known, after a review."""
    place = tmp_path_factory.mktemp("pages")
    train, held, synthetic = parts()
    synthetic[:20] = train[:20]
    ours = store_of(train, place, HOSTILE, groups=[f"{HOSTILE} {row // 2}" for row in range(N_TRAIN)])
    made, theirs = store_of(synthetic, place, "set"), store_of(held, place, "held", groups=[f"h{r}" for r in range(99)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "look_again", second_look.look_again)
        patch.setattr(second_look, "MOST_IMAGES", 20)
        audit_synthetic(ours, made, held_out=theirs, out=place / "full", plants=2, detector="pixels", gallery=True)
    audit_synthetic(
        store_of(train[20:], place, "train"), made, out=place / "alone", plants=0, detector="pixels", gallery=False
    )
    sources = pd.DataFrame({"synthetic_image": made.manifest.images[:60], "training_image": ours.manifest.images[:60]})
    sources.to_csv(place / "pairs.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        use_heads(patch)
        how = {"plants": 2, "detector": (NAME, "pixels"), "paired": str(place / "pairs.csv"), "gallery": True}
        audit_synthetic(ours, made, held_out=theirs, out=place / "first", **how)
        table = pd.read_csv(place / "first" / "review.csv", dtype=str, keep_default_na=False)
        table.loc[:3, ["verdict", "by", "reason"]] = ("dismiss", HOSTILE, HOSTILE)
        table.loc[4:5, ["verdict", "by", "reason"]] = ("confirm", HOSTILE, HOSTILE)
        table.to_csv(place / "judged.csv", index=False)
        audit_synthetic(ours, made, held_out=theirs, out=place / "judged", review=place / "judged.csv", **how)
    return {name: place / name / "report.html" for name in ("full", "alone", "judged")}


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 1280])
def test_it_fits_the_screen_and_asks_for_nothing(browser: Chromium, pages: dict[str, Path], width: int) -> None:
    for page in pages.values():
        browser.open(page, width=width)
        browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.requests() == [page.resolve().as_uri()]
        assert browser.complaints() == []
        assert browser.evaluate("document.title").startswith("Do the synthetic images copy anybody?")


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_contrast(browser: Chromium, pages: dict[str, Path], dark: bool) -> None:
    for page in pages.values():
        browser.open(page, dark=dark)
        found = browser.evaluate(CONTRAST)
        assert found["seen"] > 100
        assert found["poor"] == []


@pytest.mark.browser
def test_the_order_is_that_of_the_questions_and_pictures_stand_by_their_names(
    browser: Chromium, pages: dict[str, Path]
) -> None:
    browser.open(pages["full"])
    heads = browser.evaluate("[...document.querySelectorAll('.sections h2')].map(h => h.textContent)")
    assert heads == [
        "Which patients are exposed", "Second look", "How sure is that", "Distances",
        "Single synthetic images", "Closest pairs",
        "Pairs that a person judged",
        "What the p-values rest on", "What was not looked at", "How it was done",
    ]  # fmt: skip
    lead = browser.evaluate("document.querySelector('main .lead').textContent")
    of_images = re.search(r"The gravest pairs, of 6 of these (\d+) images: training", lead)
    assert of_images is not None
    assert f"{of_images[1]} of {N_SYNTHETIC} images expose a training patient" in lead
    assert browser.evaluate("document.querySelectorAll('svg').length") == 5
    assert browser.evaluate("document.images.length") >= 20
    assert browser.evaluate("document.querySelectorAll('img:not([src^=\"data:image/png\"])').length") == 0
    browser.open(pages["alone"])
    heads = browser.evaluate("[...document.querySelectorAll('.sections h2')].map(h => h.textContent)")
    assert heads[0] == "Which images are exposed"
    assert browser.evaluate("document.images.length") == 0
    assert not browser.evaluate("document.body.textContent.includes('expose a training')")
    browser.open(pages["judged"])
    heads = browser.evaluate("[...document.querySelectorAll('.sections h2, .sections h3')].map(h => h.textContent)")
    assert "Images and what they were generated from" in heads
    assert {"Dismissed by a person: 4", "Confirmed by a person: 2", "Clusters of copies", "Pairs of images"} <= {*heads}
    assert browser.evaluate("document.querySelectorAll('svg').length") == 8


def test_words_by_what_a_group_is() -> None:
    patients, images = Terms("patients"), Terms("images")
    assert patients.fill("{a_unit} {whom}, {of_one}") == "a patient whom, an image of a training patient"
    assert images.fill("{a_unit} {whom}, {of_one}") == "an image which, a training image"
    assert [patients.counted(n, "training") for n in (1, 1200)] == ["1 training patient", "1,200 training patients"]
    assert (p_words(1e-9), p_words(0.0312), share(0.05)) == ("below 0.001", "0.031", "5 %")
