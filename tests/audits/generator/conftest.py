"""What tests of a generator's audit share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _without_further_models() -> Iterator[None]:
    """No count of the models with which a pass would be possible, which takes a third of an audit of few trainings.

    Tests of `statistics.verdicts` and of the audit of a classifier, which counts them alike, count them.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("seeds_needed", "uneven_seeds_needed", "uneven_gap_noticed"):
            patch.setattr(f"memorisk.audits.classifier.tables.classes.{name}", lambda *_, **__: None)
        yield
