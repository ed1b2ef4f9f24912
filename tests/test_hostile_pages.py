"""Ids, groups and labels that try to be something else, in the pages of every kind of run, in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import memorisk
from tests.audits.synthetic.making import parts
from tests.report.chromium import Chromium, find_chromium
from tests.thorough import thorough

pytestmark = pytest.mark.usefixtures("drawn")

ATTACK = "document.title='hacked'"
PATIENTS = [
    f"<script>{ATTACK}</script>",
    f'"><img src=x onerror="{ATTACK}">',
    f"javascript:{ATTACK}",
    "{{7*7}}{% raise %}${7*7}$\\frac{1}{0}$",
    "left\u202egnp.thgir\u2066x",
    f"</style></svg></title><svg onload={ATTACK}>",
    "W" * 10_000,
    "]]>&lt;b&gt;&#x27;\x1b[31m\x07",
]
LABELS = [f"<svg/onload={ATTACK}>", "'\"; {{7*7}}\n=1+1"]
SIZES = {"train": 48, "held": 40, "made": 40}


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> dict[str, Path]:
    """Tables of digits whose ids, patients and labels are hostile; the first generated ones are copies."""
    root = tmp_path_factory.mktemp("hostile_sets")
    train, held, made = parts(n_train=SIZES["train"], n_held=SIZES["held"], n_synthetic=SIZES["made"])
    made = np.concatenate([train[:6], made[6:]])
    tables = {}
    for name, images in (("train", train), ("held", held), ("made", made)):
        rows = []
        for row, image in enumerate(images):
            (root / name).mkdir(exist_ok=True)
            Image.fromarray(image[..., 0]).save(root / name / f"{row}.png")
            said = PATIENTS[row % len(PATIENTS)]
            patient = f"{said}{name}{row}" if name != "made" else ""
            ids = {"path": f"{name}/{row}.png", "image": f"{name}{row}{said}", "patient": patient}
            rows.append(ids | {"label": LABELS[row % len(LABELS)]})
        tables[name] = root / f"<svg onload={ATTACK}>{name}.csv"
        frame = pd.DataFrame(rows)
        (frame if name != "made" else frame.drop(columns="patient")).to_csv(tables[name], index=False)
    return tables


def synthetic(sets: dict[str, Path], out: Path) -> None:
    memorisk.audit_synthetic(
        sets["train"], sets["made"], out=out, held_out=sets["held"], detector="pixels", gallery=True
    )


def filtered(sets: dict[str, Path], out: Path) -> None:
    memorisk.filter_synthetic(sets["train"], sets["made"], out, calibration=sets["held"], detector="pixels")


def quality(sets: dict[str, Path], out: Path) -> None:
    memorisk.assess_quality(sets["train"], sets["made"], out=out, held_out=sets["held"], features="pixels")


def classifier(sets: dict[str, Path], out: Path) -> None:
    memorisk.audit_classifier(sets["train"], out=out, models=4, epochs=1, processes=1, gallery=True)


def compared(sets: dict[str, Path], out: Path) -> None:
    for name in ("first", "second"):
        classifier(sets, out.parent / name)
    memorisk.compare(out.parent / "first", out.parent / "second").save(out)


def studied(sets: dict[str, Path], out: Path) -> None:
    settings = {"epochs": 1, "processes": 1}
    memorisk.study_rare_distinctive(
        {
            "protocol": "corrected",
            "seeds": [1, 2],
            "settings": settings,
            "architectures": {LABELS[0]: {"model": "small_cnn"}},
            "datasets": {PATIENTS[1]: {"images": str(sets["train"])}},
        },
        out=out,
    )


QUICK: list[Any] = [synthetic, thorough(filtered), thorough(quality)]
SLOW: list[Callable[..., Any]] = [compared, studied]


@pytest.fixture(scope="module")
def browser():
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with Chromium(path) as running:
        yield running


@pytest.mark.browser
@pytest.mark.parametrize("make", [*QUICK, *(pytest.param(m, marks=pytest.mark.slow) for m in SLOW)])
def test_a_page_runs_nothing_and_asks_for_nothing(browser, sets, tmp_path, make):
    make(sets, tmp_path / "run")
    page = tmp_path / "run" / "report.html"
    browser.open(page)
    browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert "hacked" not in browser.evaluate("document.title").replace("title='hacked'", "")
    assert browser.evaluate("document.scripts.length") == 1
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.complaints() == []
    handlers = "[...document.querySelectorAll('*')].filter(e => e.getAttributeNames().some(a => a.startsWith('on')))"
    assert browser.evaluate(f"{handlers}.length") == 0
    links = "[...document.querySelectorAll('a')].filter(a => !a.getAttribute('href').startsWith('#'))"
    assert browser.evaluate(f"{links}.length") == 0
    assert browser.evaluate("document.querySelectorAll('img:not([src^=\"data:image/png\"])').length") == 0
    assert (
        browser.evaluate("document.querySelectorAll('script[src], iframe, object, embed, foreignObject').length") == 0
    )
    text = browser.evaluate("document.body.innerText")
    shown = any(name[:20] in text for name in (*PATIENTS[:4], *LABELS, "<svg onload"))
    assert shown == (make is not quality), "its page alone names nobody"
    assert "49" not in {word for word in text.split() if "7*7" in word}
