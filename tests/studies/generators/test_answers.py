"""Sentences that answer the headings of the study of generators: comparisons are counted where intervals lie apart."""

from typing import Any

from memorisk.studies.engine.tables import StudyTable, fill_table
from memorisk.studies.generators.config import KIND_NAMES
from memorisk.studies.generators.page import _answers
from memorisk.studies.generators.tables import LAYOUT

ALIKE = {"dataset": "scans", "repeated": False, "detector": "pixels"}


def share(low: float, high: float, **more: Any) -> dict[str, Any]:
    return {
        **ALIKE,
        "arm": "DiT",
        "n_images": 50,
        "share": (low + high) / 2,
        "share_low": low,
        "share_high": high,
        **more,
    }


def figure(kind: str, low: float, high: float, better: str = "lower", **more: Any) -> dict[str, Any]:
    row = {"kind": KIND_NAMES[kind], "n_images": 50, "features": "pixels", "figure": "FID", "better": better, **ALIKE}
    return {**row, "estimate": low, "estimate_low": low, "estimate_high": high, **more}


def answers(**rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("memorized", "sizes", "steps", "copies", "generators", "distances", "sources")
    tables: dict[str, StudyTable] = {name: fill_table(LAYOUT, name, rows.get(name, [])) for name in names}
    return {section: numbers for section, numbers in _answers(tables).items() if numbers}


def test_without_rows_there_is_no_answer() -> None:
    assert answers() == {}


def test_memorization_is_compared_at_the_ends_of_sizes_and_steps() -> None:
    falls = [share(0.5, 0.7, n_images=50), share(0.4, 0.6, n_images=100), share(0.1, 0.4, n_images=400)]
    overlap = [share(0.5, 0.7, n_images=50, arm="GAN"), share(0.1, 0.5, n_images=400, arm="GAN")]
    assert answers(sizes=falls[::-1] + overlap)["sizes"] == {"n_compared": 2, "n_lower": 1}
    unknown = [share(0.5, 0.7), share(float("nan"), float("nan"), n_images=400)]
    assert "sizes" not in answers(sizes=unknown)
    grows = [share(0.0, 0.1, step=10), share(0.2, 0.5, step=100)]
    shrinks = [share(0.2, 0.5, step=10, arm="GAN"), share(0.0, 0.1, step=100, arm="GAN")]
    assert answers(steps=grows + shrinks)["steps"] == {"n_compared": 2, "n_higher": 1}


def test_the_better_kind_has_the_better_end_of_the_figure() -> None:
    fid = [figure("dit", 1.0, 2.0), figure("gan", 3.0, 4.0)]
    precision = [
        figure("dit", 0.1, 0.2, "higher", figure="precision"), figure("gan", 0.3, 0.4, "higher", figure="precision")
    ]  # fmt: skip
    equal = [figure("dit", 1.0, 2.0, figure="KID"), figure("gan", 1.5, 3.0, figure="KID")]
    other_size = [figure("dit", 1.0, 2.0, n_images=400)]
    counted = answers(generators=fid + precision + equal + other_size)["generators"]
    assert counted == {"n_compared": 3, "n_dit": 1, "n_gan": 1}
    assert "generators" not in answers(generators=fid[:1] + other_size)


def test_distances_are_those_of_generated_images() -> None:
    rows = [
        {
            **ALIKE,
            "arm": "DiT",
            "n_images": 50,
            "seed": 0,
            "pool": pool,
            "shift": s,
            "shift_low": s - 1,
            "shift_high": s + 1,
        }
        for pool, s in (("generated", -2.0), ("generated", 0.5), ("strong copies", -3.0))
    ]
    counted = answers(distances=rows)["distances"]
    assert (counted["n_measured"], counted["n_below"], counted["n_above"]) == (2, 1, 0)


def test_listed_patients_are_counted_once() -> None:
    memorized = [share(0.4, 0.6, attained=0.05), share(0.01, 0.2, attained=0.05, arm="GAN")]
    sources = [{**ALIKE, "patient": patient, "arm": arm} for patient, arm in (("a", "DiT"), ("a", "GAN"), ("b", "GAN"))]
    found = answers(memorized=memorized, sources=sources)
    assert found["memorized"] == {"n_compared": 2, "n_memorized": 1}
    assert found["sources"] == {"n_compared": 2, "n_listed": 2}
