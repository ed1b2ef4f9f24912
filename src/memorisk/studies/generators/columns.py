"""How the numbers of the study's tables are shown, on the page and in Markdown alike."""

from collections.abc import Mapping, Sequence

from memorisk.report.blocks import Column


def _text(source: str, heading: str, *, row: bool = False) -> Column:
    return Column(source=source, heading=heading, row_heading=row)


def _number(source: str, heading: str, kind: str = "count") -> Column:
    return Column(source=source, heading=heading, format=kind)


def _limits(source: str, heading: str, kind: str = "percent") -> Column:
    return Column(source=source, heading=heading, format=kind, interval=(f"{source}_low", f"{source}_high"))


_ARM = (_text("dataset", "Data set"), _text("arm", "Generator", row=True))
_WHO = (*_ARM, _number("n_images", "Training images"))
_ASKED = (*_WHO, _text("detector", "Detector"))
_SHARE = _limits("share", "Memorized share [95 %]")
_UNITS = (_number("n_patients", "Training patients"), _number("n_held", "Held-out patients"))
_SEEDS = _number("n_seeds", "Seeds")
_COPIED = Column(source="repeated", heading="Repeated images", format="yes_no")
_MADE = (_number("synthetic", "Generated image"), _text("synthetic_seed", "Its seed"))

COLUMNS: Mapping[str, Sequence[Column]] = {
    "memorized": (
        *_WHO,
        _COPIED,
        _text("detector", "Detector"),
        _SHARE,
        _number("attained", "Without memory", "percent"),
        _number("flagged", "Patients flagged", "mean_count"),
        _number("listed", "Listed", "mean_count"),
        _number("shortest_list", "Shortest list", "mean_count"),
        _number("ahead", "Ahead of all held-out", "mean_count"),
        *_UNITS,
        _number("n_synthetic", "Generated images"),
        _SEEDS,
    ),
    "sizes": (
        *_ASKED,
        _SHARE,
        _number("attained", "Without memory", "percent"),
        _number("step", "Steps"),
        _number("epochs", "Epochs", "power"),
        *_UNITS,
        _SEEDS,
    ),
    "steps": (
        *_WHO,
        _COPIED,
        _text("detector", "Detector"),
        _number("step", "Steps"),
        _number("epochs", "Epochs", "power"),
        _SHARE,
        _number("loss", "Loss", "power"),
        _number("held_out_loss", "Held-out loss", "power"),
        *_UNITS,
        _SEEDS,
    ),
    "copies": (
        *_ASKED,
        _limits("flagged", "Flagged, per doubling [95 %]", "decimal"),
        _number("flagged_p", "p", "probability"),
        _limits("nearness", "Nearness, per doubling [95 %]", "decimal"),
        _number("nearness_p", "p", "probability"),
        _text("positive", "Above 0"),
        _number("levels", "Levels"),
        _number("n_patients", "Patients"),
        _SEEDS,
    ),
    "levels": (
        *_ASKED,
        _text("seed", "Seed"),
        _number("copies", "Copies"),
        _limits("share", "Patients flagged [95 %]"),
        _number("nearness", "Mean nearness", "decimal"),
        _number("level_patients", "Patients"),
    ),
    "generators": (
        *_WHO,
        _COPIED,
        _text("features", "Features"),
        _text("figure", "Figure"),
        _text("better", "Better"),
        _limits("estimate", "Generated images [95 %]", "power"),
        _number("n_synthetic", "of so many"),
        _limits("same_number", "Generated, as many as held-out [95 %]", "power"),
        _limits("reference", "Held-out images [95 %]", "power"),
        _number("n_reference", "of so many"),
        _number("n_real", "Compared with"),
        _number("n_real_patients", "Training patients"),
        _number("n_reference_patients", "Held-out patients"),
        _SEEDS,
    ),
    "table_3": (
        _text("dataset", "Data set"),
        _text("arm", "Generator", row=True),
        _text("conditioning", "Conditioning"),
        _limits("fid", "FID [95 %]", "power"),
        _number("fid_reference", "held-out images", "power"),
        _limits("irs", "IRS [95 %]", "decimal"),
        _limits("irs_held", "held-out images [95 %]", "decimal"),
        _number("irs_n", "of so many each"),
        _text("detector", "Detector"),
        _limits("mem_rate", "MemRate [95 %]"),
        _limits("held_rate", "held-out images [95 %]"),
        _limits("excess", "Difference [95 %]"),
        _text("threshold", "Threshold"),
        _number("n_pairs", "Pairs"),
        _number("n_held_pairs", "Held-out pairs"),
        _number("n_patients", "Patients"),
        _SEEDS,
    ),
    "distances": (
        *_ASKED,
        _text("seed", "Seed"),
        _text("pool", "Images"),
        _limits("w1", "W1 [95 %]", "power"),
        _number("w1_chance", "by chance", "power"),
        _limits("shift", "Shift [95 %]", "power"),
        _number("median", "Median", "power"),
        _number("held_median", "held out", "power"),
        _number("n_units", "Units"),
        _number("n_held", "Held-out patients"),
    ),
    "sources": (
        *_ASKED,
        _text("seed", "Seed"),
        _text("patient", "Patient"),
        _text("image", "Image"),
        _number("copies", "Copies"),
        _number("distance", "Distance", "power"),
        _number("p", "p", "probability"),
        *_MADE,
    ),
    "closest": (
        *_ASKED,
        _text("seed", "Seed"),
        _number("place", "Place"),
        _number("distance", "Distance", "power"),
        _number("second", "to the next patient", "power"),
        _text("patient", "Patient"),
        _text("image", "Training image"),
        *_MADE,
    ),
    "trained": (
        *_ARM,
        _text("kind", "Kind"),
        _text("network", "Network"),
        _text("seed", "Seed"),
        _number("n_images", "Training images"),
        _number("n_patients", "Patients"),
        _number("rows", "Rows"),
        _number("held_images", "Held-out images"),
        _number("n_held", "Held-out patients"),
        _number("steps", "Steps"),
        _number("batch", "Batch"),
        _text("lr", "Learning rate"),
        _number("epochs", "Epochs", "power"),
        _number("n_synthetic", "Generated images"),
        Column(source="done", heading="Finished", format="yes_no"),
    ),
}
"""Of each table by its name."""
