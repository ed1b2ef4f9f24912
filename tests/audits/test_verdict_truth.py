"""The verdict in simulated audits of known truth, as `recipes/verdict_truth.py` does at length."""

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from memorisk.statistics.verdicts.remedies import Way
from tests.thorough import thorough

RECIPE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "recipes" / "verdict_truth.py"))
REPEATS = 16


def most(probability: float) -> int:
    """How many of the audits may say so by chance: exceeded once in a thousand runs of the test, if it were random."""
    return int(stats.binom.ppf(0.999, REPEATS, probability))


def counted(name: str, **more: Any) -> Any:
    """Verdicts of small audits, of 300 patients, of one cell of the table."""
    world = replace(RECIPE["CELLS"][name], n_patients=300, **more)
    return RECIPE["count"](world, REPEATS)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["nobody", "1 at 2 nats"])
def test_eight_models_decide_nothing_and_name_how_many_do(name: str) -> None:
    world = replace(RECIPE["CELLS"][f"{name}, 8 models"], n_patients=300)
    assert RECIPE["count"](world, REPEATS).status["pass"] == 0
    evidence = RECIPE["draw"](replace(world, n_models=24), 3)
    few, _ = RECIPE["judged"](evidence.of_seeds(np.arange(4)), RECIPE["AnalysisOptions"](), advise=True)
    needed = [int(one.needed) for one in few.remedies if one.way is Way.MODELS]
    assert len(needed) == 1
    assert needed[0] > 8


def test_nobody_passes_in_most_audits_and_fails_in_few() -> None:
    found = counted("nobody")
    assert found.status["fail"] <= most(0.1)
    assert found.status["pass"] >= REPEATS - most(0.3)  # METHODS section 6: 72 to 78 % pass


def test_an_audit_without_memory_fails_where_its_list_has_anyone() -> None:
    """So that `--levels` may count lists in place of whole audits."""
    world = replace(RECIPE["CELLS"]["nobody"], n_patients=300)
    seeds = range(40)
    listed = [seed for seed in seeds if RECIPE["lists_anyone"](world, seed)]
    others = [seed for seed in seeds if seed not in listed][:4]
    assert listed
    failed = [seed for seed in [*listed, *others] if RECIPE["audited"](world, seed)[0] == "fail"]
    assert failed == listed


@pytest.mark.parametrize(
    "name",
    [
        "1 at 4 nats",
        thorough("3 at 2 nats"),
        "unequal noise: 1 at 2 nats",
        "one patient under two ids: 1 at 2 nats",
    ],
)
def test_a_patient_of_the_noticed_size_does_not_pass(name: str) -> None:
    found = counted(name)
    assert found.status["pass"] <= most(0.05)
    assert found.wrong <= most(0.05)


def test_a_better_candidate_is_no_memory_and_the_paper_design_passes_nobody() -> None:
    drifted = counted("paper, better by 0.4 everywhere: nobody")
    assert drifted.status["fail"] <= most(0.1)
    assert drifted.status["pass"] == 0
    assert counted("paper: everybody by 0.5").status["fail"] == REPEATS


def test_rows_of_a_page_are_not_counted_again(tmp_path: Path) -> None:
    page, name = tmp_path / "page.md", "nobody, 8 models"
    world = replace(RECIPE["CELLS"][name], n_patients=120)
    line = RECIPE["row"](name, world, RECIPE["count"](world, 2))
    page.write_text("\n".join([*RECIPE["HEAD"], line, ""]))
    assert RECIPE["kept_rows"](page)[name] == line
    assert RECIPE["kept_rows"](tmp_path / "none.md") == {}
    RECIPE["main"](["--go-on", "--cells", name, "--out", str(page), "--processes", "1"])
    assert line in page.read_text()
    assert f"1 of {len(RECIPE['CELLS'])} worlds are counted so far" in page.read_text()


def test_the_table_has_a_row_a_cell() -> None:
    world = replace(RECIPE["CELLS"]["nobody, 8 models"], n_patients=120)
    line = RECIPE["row"]("nobody, 8 models", world, RECIPE["count"](world, 2))
    assert line.count("|") == RECIPE["HEAD"][0].count("|")
    assert "| fail at most" in line
