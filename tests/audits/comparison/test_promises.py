"""What is told of copies that would have been noticed says something of the set at hand."""

import pytest

from memorisk.audits.comparison.plants import kinds_promise
from memorisk.statistics.copies.planted_copies import PlantPower
from memorisk.statistics.copies.singled_out import copies_for_power
from memorisk.statistics.intervals.shares import clopper_pearson


@pytest.mark.parametrize("n_train", [30, 400])
def test_no_more_patients_can_have_been_copied_than_there_are(n_train: int) -> None:
    power = PlantPower(clopper_pearson(27, 30), {"exact": clopper_pearson(30, 30), "pasted": clopper_pearson(2, 30)})
    needed = copies_for_power(power.kinds["pasted"].low, 0.8)
    assert needed is not None
    assert 30 < needed < 400
    told = kinds_promise(power, 0.8, n_train)
    assert (f"if at least {needed:,} training patients" in told) == (n_train == 400)
    assert (f"copies of all {n_train} training patients" in told) == (n_train == 30)
    assert "pasted: 2 of 30 source identities" in told
