"""What the loop promises, and what it does not: certain copies, families, weak detectors, bounds."""

from pathlib import Path

import numpy as np

from memorisk.images.orientations import ORIENTATIONS
from tests.audits.synthesize_set.conftest import run
from tests.audits.synthesize_set.making import HERE, copied


def test_a_training_image_mirrored_or_turned_is_not_kept(place: Path) -> None:
    found = run(place, "turned", f"{HERE}:some_turned", images=40, batch=16)
    ledger = found.per_image
    source = np.array([copied(seed) for seed in ledger["seed"]])
    copies = ledger[source >= 0]
    assert len(copies) > 10
    assert set(copies["reason"]) == {"same pixels"}
    assert copies["nearest_group"].tolist() == [f"train{row:03d}" for row in source[source >= 0]]
    assert len(set(copies["orientation"]) & set(ORIENTATIONS)) > 4
    assert (copies["score"] < copies["threshold"]).any()  # the detector alone lets them pass
    assert (ledger["orientation"][source < 0] == "").all()
    assert found.verdict["n_identical"] == len(set(source[source >= 0]))
