"""Kinds of copies that are tried and not required: they are shown, and change no other number and no verdict."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from memorisk.audits.release.statement import make_statement
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.audits.synthetic.page import synthetic_page
from memorisk.audits.synthetic.result import SyntheticNumbers
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.images.alterations.plants import ALL_KINDS
from memorisk.report.numbers import from_json
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.report.statements.officer.page import officer_page
from memorisk.statistics.intervals.shares import clopper_pearson
from tests.audits.synthetic.making import parts, store_of

KINDS = ("exact", "flipped")
SETTINGS = {"detector": "pixels", "plants": 24, "plant_kinds": KINDS, "one_image_per_patient": True}
FURTHER = tuple(kind for kind in ALL_KINDS if kind not in KINDS)


def audit(folder: Path, out: str) -> Result:
    train, held, synthetic = parts()
    stores = [store_of(images, folder, name) for images, name in ((train, "train"), (synthetic, "set"))]
    found = audit_synthetic(*stores, held_out=store_of(held, folder, "held"), out=folder / out, **SETTINGS)
    assert isinstance(found, Result)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    """A folder with a cache of its own."""
    place = tmp_path_factory.mktemp("further")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(place / "cache"))
        patch.setenv("XDG_CONFIG_HOME", str(place / "config"))
        yield place


@pytest.fixture(scope="module")
def found(folder: Path) -> Result:
    """An honest set that passes by two kinds."""
    result = audit(folder, "with")
    assert result.status == "pass", result.why
    return result


def unchanged(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What further kinds must not change: all numbers, and the codes of reasons but the one that names them."""
    codes = [reason["code"] for reason in verdict["reasons"] if reason["code"] != "other-kinds-missed"]
    return {k: v for k, v in verdict.items() if k not in ("also_tried", "why", "reasons")} | {"codes": codes}


def test_they_change_no_other_number(folder: Path, found: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyntheticOptions, "further_plants", 0)
    alone = audit(folder, "alone")
    assert set(found.verdict["also_tried"]) == {*FURTHER} - {"recoloured"}  # digits have no colours
    assert not alone.verdict["also_tried"]
    assert unchanged(found.verdict) == unchanged(alone.verdict)
    for name, table in alone.tables.items():
        theirs = found.tables[name]
        if name in ("plants", "kinds"):
            table, theirs = (t[t["required"]].reset_index(drop=True) for t in (table, theirs))
            assert len(table)
        pd.testing.assert_frame_equal(theirs, table)
    pd.testing.assert_frame_equal(found.per_image, alone.per_image)
    pd.testing.assert_frame_equal(found.per_group, alone.per_group)


def test_no_verdict_depends_on_them(found: Result) -> None:
    options = synthetic_options(SETTINGS)
    for successes in (0, 100):
        also = {kind: asdict(clopper_pearson(successes, 100)) for kind in FURTHER}
        numbers = from_json(SyntheticNumbers, found.summary["numbers"] | {"also_tried": also})
        verdict = synthetic_verdict(numbers, options)
        assert verdict["status"] == "pass"
        missed = [why for why in verdict["why"] if "these were mostly missed" in why]
        assert len(missed) == (successes == 0)
        assert f"not required: rotated ({successes} of 100 noticed)" in verdict["why"][0]
        assert unchanged(verdict) == unchanged(found.verdict)


def test_the_report_shows_what_one_copy_of_each_kind_would_have_met(found: Result) -> None:
    table = found.tables["kinds"].set_index("kind")
    assert table.index.tolist() == [*KINDS, *FURTHER]
    assert table.loc["exact", ["planted", "by_pixels", "missed"]].tolist() == [24, 24, 0]
    assert table.loc["rotated", "planted"] == 6
    assert table.loc["recoloured", ["planted", "patients", "missed"]].tolist() == [0, 0, 0]
    ways = table[["by_pixels", "by_singled_out", "by_second_look"]]
    assert (ways.max(axis=1) <= table["found"]).all()
    assert (table["found"] <= ways.sum(axis=1)).all()
    assert (table["found"] + table["missed"] == table["planted"]).all()
    plants = found.tables["plants"]
    assert plants.groupby("kind")["found_by_any"].sum().to_dict() == table.loc[table["planted"] > 0, "found"].to_dict()
    page = render_page(synthetic_page(found))
    assert "Also tried, not required" in page
    assert "What one copy of each kind would have met" in page
    assert page.count("shrunk to 25% to 50% of either side, enlarged again") == 1


def test_a_run_of_before_has_required_kinds_alone(found: Result) -> None:
    kinds = found.tables["kinds"].query("required")[["kind", "what", "planted", "patients", "found", "share", "low",
                                                     "high", "median_distance"]]  # fmt: skip
    plants = found.tables["plants"].query("required").drop(columns=["required", "second_look"])
    older = found.replace(tables=found.tables | {"kinds": kinds, "plants": plants})
    assert "Also tried, not required" not in render_page(synthetic_page(older))


def test_a_statement_names_kinds_that_were_mostly_missed(folder: Path, found: Result) -> None:
    told = make_statement(str(folder / "with"))
    (audit,) = told.audits
    names = {figure.name for figure in audit.figures}
    assert {f"found/{kind}" for kind in KINDS} == {name for name in names if name.startswith("found/")}
    assert {f"also/{kind}" for kind in found.verdict["also_tried"]} == {n for n in names if n.startswith("also/")}
    missed = [kind for kind, of in found.verdict["also_tried"].items() if of["estimate"] < 1 / 2]
    assert missed
    assert any("mostly missed" in limit and all(kind in limit for kind in missed) for limit in audit.limits)
    assert "Other kinds, mostly missed: " in render_page(officer_page(told))
    assert not any("none was planted" in text for text in audit.not_examined)
