"""What is said of the levels of a mark's audit is what the tables of docs/results/mark_level.md hold."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from memorisk.audits.feature.page import _reading_guide
from memorisk.audits.feature.reasons import MATCHED_LEVEL, WeakProof
from memorisk.report.blocks import Steps

DOCS = Path(__file__).parents[3] / "docs"
LEVELS = DOCS / "results" / "mark_level.md"
LETTERS, NETS = "EIAKT", 3
MODELS, LEVEL = 200, 0.05


def rates(column: str) -> np.ndarray:
    """Per cent of the models, by network and letter, of the column whose heading begins so."""
    tables, at = [], None
    for line in LEVELS.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| mark |"):
            at = [cell.startswith(column) for cell in cells].index(True)
            tables.append([])
        elif at is not None and cells[0] in LETTERS and len(cells) > at:
            tables[-1].append((cells[0], float(cells[at].removesuffix("%"))))
    assert [[name for name, _ in table] for table in tables] == [list(LETTERS)] * NETS
    return np.array([[value for _, value in table] for table in tables])


def spoken(values: np.ndarray) -> str:
    """The range in words; a rate is a multiple of half a per cent, so that nothing is rounded."""
    assert (values * MODELS / 100 % 1 == 0).all()
    return f"{values.min():g} to {values.max():g} %"


def flat(path: Path) -> str:
    """A page as one line."""
    return re.sub(r"\s+", " ", path.read_text())


def test_the_level_of_matched_controls_is_that_of_the_tables() -> None:
    matched = rates("matched controls")
    assert spoken(matched) == MATCHED_LEVEL
    assert MATCHED_LEVEL in WeakProof(level=0.05, n_needed=19).text
    summary = SimpleNamespace(rank=SimpleNamespace(n_references=0))
    (steps,) = _reading_guide(cast(Any, summary))
    assert isinstance(steps, Steps)
    assert any(MATCHED_LEVEL in str(item) for item in steps.items)
    for page in (DOCS / "feature.md", LEVELS):
        assert MATCHED_LEVEL in flat(page), page


def test_with_references_every_letter_lies_within_two_standard_deviations() -> None:
    exact = rates("against 20 references")
    assert (abs(exact / 100 - LEVEL) <= 2 * np.sqrt(LEVEL * (1 - LEVEL) / MODELS)).all()
    for page in (DOCS / "feature.md", LEVELS):
        assert f"{spoken(exact)}" in flat(page), page
    assert "all fifteen rates lie within two standard deviations of 5 %" in flat(LEVELS)


@pytest.mark.parametrize("page", [DOCS / "deviations.md", LEVELS], ids=lambda p: p.name)
def test_the_papers_test_is_called_what_it_is(page: Path) -> None:
    assert spoken(rates("paper's t-test")) in flat(page)


def test_the_references_mean_taken_from_the_controls_is_told() -> None:
    assert spoken(rates("matched, less 20 references")) in flat(LEVELS)
