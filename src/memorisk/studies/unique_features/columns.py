"""How the corrected numbers of the study's tables are shown, on the page and in Markdown alike."""

from collections.abc import Mapping, Sequence

from memorisk.report.blocks import Column


def _text(source: str, heading: str) -> Column:
    return Column(source=source, heading=heading)


def _number(source: str, heading: str, kind: str = "decimal") -> Column:
    return Column(source=source, heading=heading, format=kind)


def _limits(source: str, heading: str, kind: str = "decimal", low: str = "", high: str = "") -> Column:
    ends = (low or f"{source}_low", high or f"{source}_high")
    return Column(source=source, heading=heading, format=kind, interval=ends)


_NETWORK = Column(source="network", heading="Network", row_heading=True)
_ARM = (_text("dataset", "Data set"), _NETWORK)
_REGULARISED = (*_ARM, _text("regulariser", "Regulariser"))

_TESTED = (
    _limits("m", "M, canaries less references [95 %]"),
    _number("p", "p of all canaries together", "probability"),
    _number("found", "Found alone", "count"),
    _number("below_all", "Below all references", "count"),
    _number("n_canaries", "of canaries", "count"),
    _limits("found_share", "Share found [95 %]", "percent", "found_low", "found_high"),
    _number("n_references", "References", "count"),
    _number("accuracy", "Accuracy", "percent"),
)
_PUBLISHED = (
    _limits("m_paper", "Mean M as published [95 %]", "power"),
    _number("m_paper_references", "Same, references", "power"),
    _number("m_positive", "Mean of M > 0", "power"),
    _number("n_positive", "of", "count"),
    _number("m_positive_references", "Same, references", "power"),
    _number("welch_share", "Welch test significant", "percent"),
    _number("welch_references", "Same, references", "percent"),
)
_CHANGE = (
    _limits("change", "M less M without regulariser [95 %]"),
    _number("same", "Mark as probed", "percent"),
    _number("mirrored", "Mirrored", "percent"),
)

COLUMNS: Mapping[str, Sequence[Column]] = {
    "table_1": (
        *_ARM,
        _limits("m_w", "Mean M_w [95 %]"),
        _number("m_w_references", "Same, references"),
        _limits("excess", "Difference [95 %]"),
        _number("found", "Found alone", "count"),
        _number("n_found", "of canaries", "count"),
        _limits("found_share", "Share [95 %]", "percent", "found_low", "found_high"),
        _number("n_models", "Models", "count"),
        _number("sd_redraws", "s.d. over redraws"),
        _number("n_canaries", "Canaries", "count"),
        _number("n_references", "References", "count"),
    ),
    "table_2": (*_ARM, *_TESTED),
    "table_3": (*_REGULARISED, *_CHANGE[:1], *_TESTED, *_CHANGE[1:]),
    "seeds": (
        *_ARM,
        _text("score", "Score"),
        _limits("share", "Share that is the image's [95 %]", "decimal"),
        _number("range", "Mean range over trainings", "power"),
        _number("sd_seed", "s.d. over trainings", "power"),
        _number("sd_redraws", "s.d. over redraws", "power"),
        _number("n_images", "Canaries", "count"),
        _number("n_runs", "Trainings of each", "count"),
    ),
    "epochs": (
        *_ARM,
        _number("epoch", "Epoch", "count"),
        _limits("m", "M, canaries less references [95 %]"),
        _limits("m_paper", "M as published [95 %]", "power"),
        _number("m_paper_references", "Same, references", "power"),
        _number("validation", "Validation loss"),
        _number("n_models", "Models", "count"),
        _number("n_references", "References", "count"),
    ),
    "before_after": (
        *_ARM,
        _text("image", "Image"),
        _text("chosen", "Chosen for"),
        _number("before", "Before", "power"),
        _number("after", "With the mark", "power"),
        _number("retrained", "Retrained without", "power"),
        _number("place", "Place", "percent"),
        _number("agreement", "Agreement", "short"),
    ),
    "latents": (
        *_ARM,
        _number("latent", "Latent", "count"),
        _number("n_latents", "of", "count"),
        _number("mark", "Excited by the mark", "percent"),
        _number("without", "Same, models with a control", "percent"),
        _limits("excess", "Difference [95 %]"),
        _number("random", "By a random patch", "percent"),
        _number("n_models", "Images", "count"),
        _number("n_chosen", "Images it was chosen on", "count"),
        _number("paper_latent", "The paper's latent", "count"),
        _limits("paper_excess", "Its difference [95 %]"),
    ),
    "influence": (
        *_REGULARISED,
        _text("score", "Score"),
        _limits("r", "Pearson's r [95 %]"),
        _number("p", "p", "probability"),
        _limits("apart", "Highest less lowest [95 %]", "power"),
        _number("n_canaries", "Canaries", "count"),
    ),
    "networks": (
        *_REGULARISED,
        _number("n_images", "Images", "count"),
        _number("n_validation", "Validation", "count"),
        _number("left_out", "Left out", "count"),
        _number("n_probes", "Probes", "count"),
        _number("probes_left_out", "Probes left out", "count"),
        _number("n_controls", "Controls", "count"),
        _number("trainings", "Trainings", "count"),
        _number("epochs", "Best epoch, median", "count"),
        _number("accuracy", "Accuracy", "percent"),
        _number("majority", "Majority", "percent"),
        _number("lr", "Learning rate", "text"),
        _number("batch_size", "Batch", "count"),
        _text("augment", "Augmentation"),
        _number("transparent", "Opacity 0", "power"),
    ),
}
"""Of each table by its name."""

PUBLISHED: Mapping[str, Sequence[Column]] = {
    "table_2": (*_ARM, *_PUBLISHED),
    "table_3": (*_REGULARISED, *_PUBLISHED),
}
"""Columns of the same rows that hold the paper's statistics, beside those of models without the mark."""
PUBLISHED_TITLE = "The paper's statistics, of the canary models and of models that never saw the mark."
