"""How the corrected numbers of the benchmark's tables are shown, on the page and in Markdown alike."""

from collections.abc import Mapping, Sequence

from memorisk.report.blocks import Column


def _text(source: str, heading: str, *, wide: bool = False, row: bool = False) -> Column:
    return Column(source=source, heading=heading, wide=wide, row_heading=row)


def _number(source: str, heading: str, kind: str = "percent") -> Column:
    return Column(source=source, heading=heading, format=kind)


def _share(source: str, heading: str) -> Column:
    return Column(source=source, heading=heading, format="percent", interval=(f"{source}_low", f"{source}_high"))


_DETECTOR = (_text("model", "Model", row=True), _text("pretraining", "Pre-training"), _text("loss", "Loss"))
_UNITS = (_number("n_patients", "Patients", "count"), _number("n_seeds", "Seeds", "count"))
_COMPARED = (
    _number("first_detected", "First finds"),
    _number("second_detected", "Second finds"),
    _share("difference", "Difference [95 %]"),
    _number("p", "p", "probability"),
    _number("adjusted", "p, Holm", "probability"),
    _number("n_discordant", "Patients who decide", "count"),
    _number("n_patients", "of", "count"),
    _number("p_paper", "p as the paper", "probability"),
)  # fmt: skip
_MEASURES = (
    _text("measure", "Measure", row=True),
    _share("published", "As published [its 95 %]"),
    _number("new_flagged", "New patients it flags"),
    _share("detected", "Detected on test [95 %]"),
    _number("validation", "on validation"),
    _number("nearest", "Source is nearest"),
    _number("flagged", "New patients flagged"),
    _share("difference", "Less the chosen [95 %]"),
    _number("adjusted", "p, Holm", "probability"),
    _number("n_detectors", "Detectors", "count"),
    _number("n_patients", "Patients", "count"),
)  # fmt: skip
_BOTH = (_text("first", "First", row=True), _text("second", "Second"))

COLUMNS: Mapping[str, Sequence[Column]] = {
    "leaderboard": (
        _text("place", "Place"),
        _text("name", "Detector", row=True),
        _text("measure", "Measure"),
        _share("detected", "Detected [95 %]"),
        _number("detected_all", "All copies"),
        _number("p_first", "p to the first, Holm", "probability"),
        _share("flagged", "New patients flagged [95 %]"),
        *_UNITS,
    ),
    "beside": (
        _text("name", "Detector", row=True),
        _share("detected_weak", "Weak copies [95 %]"),
        _share("detected_strong", "Strong copies [95 %]"),
        _share("nearest", "Source is nearest [95 %]"),
        _share("recognised", "Recognised [95 %]"),
        _share("detected_train", "Train copies [95 %]"),
        _number("detected_validation", "Validation copies"),
        _number("published", "As published"),
        _text("published_measure", "by"),
    ),
    "table_1": (
        *_DETECTOR,
        _number("published", "As published"),
        _text("published_measure", "by"),
        _share("new_flagged", "New patients it flags [95 %]"),
        _number("published_on_test", "Same measure, corrected"),
        _text("measure", "Measure chosen"),
        _number("validation", "where chosen"),
        _share("detected", "Detected on test [95 %]"),
        _share("flagged", "New patients flagged [95 %]"),
        *_UNITS,
    ),
    "table_2": (*_BOTH, *_COMPARED),
    "table_3": (*_BOTH, *_COMPARED),
    "table_4": (*_BOTH, *_COMPARED),
    "trained": (
        *_BOTH,
        *_COMPARED[:-1],
        _number("first_train", "First, train copies"),
        _number("second_train", "Second, train copies"),
    ),
    **dict.fromkeys(("measures_none", "measures_triplet", "measures_infonce"), _MEASURES),
    "cells": (
        _text("detector", "Detector", row=True),
        _text("state", "State"),
        _number("dimension", "Columns", "count"),
        _text("weights", "Weights"),
        _text("preprocessing", "Images", wide=True),
        _text("notes", "Notes", wide=True),
    ),
    "folders": (
        _text("detector", "Detector", row=True),
        _text("features", "After --features", wide=True),
    ),
    "fitted": (
        _text("measure", "Measure", row=True),
        _number("n", "Detectors", "count"),
        _text("words", "Such as", wide=True),
    ),
    "refused": (
        _text("measure", "Measure", row=True),
        _text("form", "Form"),
        _number("n", "Detectors", "count"),
        _text("detector", "Such as"),
        _text("why", "Why", wide=True),
    ),
}  # fmt: skip
