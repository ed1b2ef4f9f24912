"""The report's section on an intervention: what it says, for any class names, with and without ids."""

import numpy as np
import pandas as pd

from memorisk.audits.classifier.pages.audit import classifier_page
from memorisk.audits.classifier.retraining.intervention_effects import COLUMNS, TABLE
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.statistics.retraining import INSUFFICIENT, LARGER, NOT_LARGER
from tests.audits.classifier.test_page import page_text
from tests.audits.classifier_results import HOSTILE, NAMES, make_result
from tests.report.test_page import Outline


def with_table(labels=NAMES, *, seed=0, **summary) -> Result:
    """A result with an intervention on the first two classes; the first one is larger than retraining."""
    rng = np.random.default_rng(seed)
    n = len(labels)
    table = pd.DataFrame({c: rng.normal(size=n) for c in COLUMNS})
    table["label"], table["targeted"] = pd.Series(list(labels), dtype=object), np.arange(n) < 2
    table["reading"] = [LARGER, NOT_LARGER, f"{INSUFFICIENT}: fewer than 10 scored groups", *[LARGER] * (n - 3)]
    for name in ("n", "n_groups", "n_seeds", "n_test_groups"):
        table[name] = rng.integers(10, 90, n)
    found = {
        "name": "grayscale",
        "description": "colour replaced by its luma",
        "classes": list(labels[:2]),
        "named": True,
        "left_out": [],
        "n_images_changed": 1234,
        "n_trainings": 32,
        "warnings": ["a shortcut to their label"],
        "sentences": ["one line"],
    }
    result = make_result(labels)
    return result.replace(tables={TABLE: table}, summary=result.summary | {"intervention": found | summary})


def test_the_section_says_what_was_done_and_how_many_changed_classes_moved():
    text = page_text(with_table())
    assert "What changes when a class loses what distinguishes it" in text
    assert "All 1,234 images of melanoma , naevus (as named) were changed: colour replaced by its luma" in text
    assert f"Of 2 changed classes, 1 moved by an amount {LARGER}" in text  # the others were not changed
    assert "a shortcut to their label" in text
    assert "Change in % of |before| (paper)" in text
    assert "those with fewer than 5 % of the images" in page_text(with_table(named=False))


def test_there_is_no_section_without_an_intervention():
    for result in (make_result(), with_table().replace(tables={}), make_result().replace(tables=with_table().tables)):
        assert "loses what distinguishes it" not in page_text(result)


def test_the_page_is_whole_for_hostile_class_names_and_when_redacted():
    result = with_table(HOSTILE)
    for redact in (False, True):
        html = render_page(classifier_page(result, redact=redact))
        outline = Outline(html)
        assert not outline.open
        assert "intervention" in [attributes.get("id") for _, attributes in outline.tags]
        assert "<script>document" not in html
        assert "<img src=x" not in html
        assert "Retraining alone" in html


def test_limits_that_are_not_known_leave_the_rest_readable():
    result = with_table()
    table = result.tables[TABLE].copy()
    for name in COLUMNS:
        if name.endswith(("low", "high")) or name == "excess":
            table[name] = np.nan
    text = page_text(result.replace(tables={TABLE: table}))
    assert "unknown to unknown" in text
    assert "nan" not in text.split("What changes when")[2].split("Training images against chance")[0]
