"""Tables of losses with known truth, which passed though somebody was remembered: albums of 60 images, and of NIH."""

from pathlib import Path

import pytest

from memorisk.audits.classifier.analysis import class_findings
from memorisk.audits.classifier.evidence import Context, evidence_from_table
from memorisk.audits.classifier.losses import read_scores, with_losses
from memorisk.audits.classifier.options import AnalysisOptions
from tests.thorough import thorough

CASES = Path(__file__).parents[4] / "shared" / "cases" / "losses"


@pytest.mark.parametrize("name", ["patients_of_60_images_1_at_4nats", thorough("nih_sizes_1_at_2nats")])
def test_one_image_of_a_large_album_is_listed(name):
    path = CASES / f"{name}.parquet"
    if not path.is_file():
        pytest.skip("the shared cases are not here")
    evidence = evidence_from_table(with_losses(read_scores(path)))
    findings = class_findings(evidence, AnalysisOptions(), Context(design=evidence.design))
    assert sum(found.lists.n_verdict_flagged for found in findings) == 1
    assert any("many" in found.lists.power.strata for found in findings)
