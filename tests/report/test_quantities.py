"""Numbers that carry their title, format and units: one walk makes facts, figures of a statement and rows of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import nan
from typing import Annotated, Any

import pytest

from memorisk.audits.classifier.result import ClassUtility, Noticeable, PrivacyPromise
from memorisk.audits.feature.result import FeatureVerdict
from memorisk.audits.filter.result import FilterNumbers
from memorisk.audits.synthesize.result import LoopNumbers
from memorisk.audits.synthetic.result import SyntheticNumbers
from memorisk.audits.watch.result import Evaluation
from memorisk.report.blocks import Fact
from memorisk.report.columns import FORMATS
from memorisk.report.numbers import INLINE
from memorisk.report.quantities import Quantity, Units, _members, facts, measured, opening, plan_rows, stated_figures
from memorisk.runs.workload import Cost
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson

ANNOTATED = (ClassUtility, Noticeable, PrivacyPromise)
ANNOTATED += (FeatureVerdict, FilterNumbers, LoopNumbers, SyntheticNumbers, Evaluation)


@dataclass(frozen=True)
class Held:
    n_held: Annotated[int, Quantity("Held-out {units}", figure="held_out", stated_alone=True)]


@dataclass(frozen=True)
class Numbers:
    n_patients: int
    held: Annotated[Held | None, INLINE]
    n_near: Annotated[int | None, Quantity("{Units} near", "count", "near", Units("n_patients", "{units}"), "p")]
    p: float
    found: Annotated[Mapping[str, Proportion] | None, Quantity("Found", "percent", "found/", Units("", "sources"))]
    rate: Annotated[Proportion | None, Quantity("Rate", "percent", "rate")] = None
    most: Annotated[None, Quantity("Copies", "percent", "most", high="high")] = None
    high: float = nan
    n_judged: Annotated[int, Quantity("Judged", if_any=True)] = 0

    @property
    def n_far(self) -> Annotated[int | None, Quantity("{Units} far")]:
        return None if self.n_near is None else self.n_patients - self.n_near


def test_the_walk_yields_titles_units_and_intervals_in_order():
    share = clopper_pearson(2, 8)
    numbers = Numbers(1234, Held(9), 12, 0.0004, {"blur": share, "crop": share}, rate=share, high=0.25)
    shown = {one.figure or one.title: one for one in measured(numbers, units="patients")}
    assert list(shown) == ["held_out", "near", "found/blur", "found/crop", "rate", "most", "Judged", "Patients far"]
    near, blur, most = shown["near"], shown["found/blur"], shown["most"]
    assert (near.title, near.text, near.note) == ("Patients near", "12", "of 1,234; p 4.0e\N{MINUS SIGN}4")
    assert (near.n, near.unit, near.confidence) == (1234, "patients", None)
    assert (blur.title, blur.value, blur.n, blur.unit, blur.confidence) == ("Found: blur", 0.25, 8, "sources", 0.95)
    assert blur.text == "25.0\N{NO-BREAK SPACE}%"
    assert blur.note.startswith("3.2\N{NO-BREAK SPACE}% to 65.1\N{NO-BREAK SPACE}%; of 8")
    assert (most.text, most.note, most.confidence) == ("at most 25.0\N{NO-BREAK SPACE}%", "", 0.95)


def test_what_could_not_be_counted_is_not_known_and_never_0():
    absent = Numbers(5, None, None, nan, None)
    by_name = {one.name: one for one in stated_figures(absent, units="images")}
    assert {name: one.value for name, one in by_name.items()} == {"held_out": None, "near": None, "most": None}
    assert facts(absent, units="images") == [
        Fact("Images near", "not known", "of 5"), Fact("Copies", "not known"), Fact("Images far", "not known"),
    ]  # fmt: skip
    assert Fact("Judged", "3") in facts(Numbers(5, None, 1, 1.0, {}, n_judged=3), units="images")


@dataclass(frozen=True)
class Plan:
    images: Annotated[dict[str, int], Quantity("images")]
    detectors: Annotated[tuple[str, ...], Quantity("detector")]
    seeds: Annotated[tuple[int, ...], Quantity("seeds", "text")]
    shortest: Annotated[int | None, Quantity("shortest list", missing="none possible")]
    cost: Cost
    why: Annotated[str, Quantity("why")] = ""
    sources: Annotated[int, Quantity("sources", if_any=True)] = 0
    hidden: int = 3


def test_a_plan_is_rows_of_its_titled_fields():
    plan = Plan({"training": 1200, "held out": 3}, ("a", "b"), (1, 2), None, Cost(pairs=7))
    assert plan_rows(plan) == [
        ("images", "training 1,200, held out 3"),
        ("detector", "a"),
        ("detector", "b"),
        ("seeds", "1, 2"),
        ("shortest list", "none possible"),
        *Cost(pairs=7).rows(),
    ]


@pytest.mark.parametrize("kind", ANNOTATED)
def test_every_annotation_names_a_format_and_fields_that_exist(kind: type):
    names, quantities = set[str](), list[Quantity]()

    def walk(inner: Any) -> None:
        names.update(field.name for field in fields(inner))
        for name, quantity, nested in _members(inner):
            names.add(name)
            quantities.extend([] if quantity is None else [quantity])
            if nested is not None:
                walk(nested)

    walk(kind)
    assert quantities
    for one in quantities:
        assert one.format in FORMATS
        assert {one.of.field, one.p_value, one.low, one.high} - {""} <= names, one
    stated = [one.figure for one in quantities if one.figure]
    assert len(stated) == len(set(stated))


@dataclass(frozen=True)
class _Opened:
    """Plan of a run, of which some rows open it."""

    images: Annotated[int, Quantity("images", opening=1)]
    lacking: Annotated[tuple[str, ...], Quantity("no pass", opening=4)]
    level: Annotated[int, Quantity("level")]
    cost: Annotated[Cost, Quantity("work", opening=2)]


def test_an_opening_is_the_marked_rows_of_a_plan_in_five_lines_at_most() -> None:
    plan = _Opened(1000, ("no ids\nat all", "few"), 3, Cost(pairs=2000, bytes_images=7))
    work = "work: 2,000 pairs of images compared; an estimate of the time appears while it runs"
    assert opening(plan).splitlines() == ["images: 1,000", work, r"no pass: no ids\nat all", "no pass: few"]
    many = opening(replace(plan, lacking=tuple("abcd")))
    assert many.splitlines() == ["images: 1,000", work, "no pass: a", "no pass: b", "2 more lines with --dry-run"]
    assert plan_rows(plan)[3:5] == [("level", "3"), ("pairs of images compared", "2,000")]
