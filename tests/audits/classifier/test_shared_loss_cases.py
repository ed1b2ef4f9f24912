"""Tables of losses with known truth in ``../shared/cases``: no pass, or no fail, where there must be none."""

from pathlib import Path

import pytest

from memorisk.audits.classifier.losses import audit_losses

CASES = Path(__file__).parents[4] / "shared/cases"
TIES = ("confident_from_float16_prob", "confident_round4", "saturated", "small_class_uneven", "uneven_plain", "zeros")


def status(name: str, tmp_path: Path) -> str:
    """Status of the audit of one case."""
    path = CASES / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return audit_losses(path, out=tmp_path / "run", one_image_per_patient=True).status


@pytest.mark.parametrize("name", [*TIES, "confident_full", "rounded1", "uneven_saturated"])
def test_a_table_that_hides_or_shows_uneven_gaps_never_passes(name: str, tmp_path: Path) -> None:
    assert status(f"41-ties/{name}", tmp_path) != "pass"


def test_halves_that_were_not_drawn_anew_neither_fail_nor_pass(tmp_path: Path) -> None:
    assert status("losses/fixed_halves_nobody", tmp_path) == "undecided"
