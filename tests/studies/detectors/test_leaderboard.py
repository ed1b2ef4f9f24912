"""Detectors made of known hits: who is chosen, judged and compared on what."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from memorisk.statistics.copies.calibration import specificity_threshold
from memorisk.statistics.copies.copy_detection import PoolDetection, detect
from memorisk.statistics.copies.detector_comparison import paired_hits
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.studies.detectors.cells import read_backbone
from memorisk.studies.detectors.detection import Detector, Measurement, PoolReading
from memorisk.studies.detectors.page import findings
from memorisk.studies.detectors.results import leaderboard, paired_tests
from memorisk.studies.detectors.tables import measure_tables, paper_tables
from memorisk.studies.engine.boards import plain_text

N = 60
CUT = specificity_threshold(np.linspace(1, 2, 40))
SOURCE = np.array([f"p{i // 2}" for i in range(N)])  # two images a patient


def pool(hits: np.ndarray) -> PoolReading:
    found = detect(np.where(hits, 0.0, 9.0), SOURCE, CUT, right=np.ones(N, bool))
    flags = clopper_pearson(1, 20)
    return PoolReading(
        detection=PoolDetection("x", CUT, found, flags, N), recognised=hits, nearest_is_source=np.ones(N, bool),
        flagged=np.arange(20) < 1, source=SOURCE,
    )  # fmt: skip


def detector(name: str, shares: dict[str, tuple[float, float]], *, loss: str = "none", seeds: int = 1) -> Detector:
    """A detector that finds known shares of validation and test copies by each measure."""
    backbone, measured = read_backbone(f"mlp1@none={name}"), []
    for measure, (validation, test) in shares.items():
        for seed in range(seeds):
            hits = [np.random.default_rng([seed, i]).random(N) < s for i, s in enumerate((0.5, validation, test))]
            pools = dict(zip(("train", "validation", "test"), map(pool, hits), strict=True))
            job = cast(Any, SimpleNamespace(cell=SimpleNamespace(seed=seed, backbone=backbone, loss=loss)))
            measured.append(Measurement(job, measure, "weak", measure, pools, None, "none"))
    return Detector(backbone, loss, measured, 0)


def test_validation_chooses_the_measure_though_another_is_better_on_test() -> None:
    d = detector("a", {"cosine": (0.9, 0.3), "euclidean": (0.4, 0.95)})
    assert d.chosen("weak") == "cosine"
    row = leaderboard([d], ("weak",)).rows.to_dict("records")[0]
    assert row["measure"] == "cosine"
    assert row["detected_all"] == d.share("cosine", "weak", "test") < 0.5
    table = measure_tables([d], "weak")[0].ours.set_index("measure")
    assert table["chosen"].to_dict() == {"cosine": True, "euclidean": False}


def test_detectors_are_compared_on_test_copies() -> None:
    a, b = detector("a", {"cosine": (0.1, 0.95)}), detector("b", {"cosine": (0.95, 0.1)})
    (found,) = paired_tests([(a, b)], "weak")
    hits = [d.hits("cosine", "weak", "test")[0] for d in (a, b)]
    assert found.hits == paired_hits(*hits, SOURCE)
    assert found.adjusted < 1e-6
    board = leaderboard([b, a], ("weak",))
    assert board.rows["name"].tolist() == [a.name, b.name]
    assert board.rows["place"].tolist() == ["1", "2"]
    assert board.undecided == [a.name]
    assert board.chosen == b.name  # what validation says is said, too


def said_of(found: list[Detector]) -> str:
    """The first two sentences of the page."""
    board = leaderboard(found, ("weak",))
    tables = {table.name: table for table in paper_tables(found, "weak")}
    options = SimpleNamespace(strength="weak", specificity=0.95)
    parts = SimpleNamespace(patients=lambda name: 40)
    bench = SimpleNamespace(board=board, options=options, parts=parts, table=tables.__getitem__)
    return " ".join(plain_text(sentence) for sentence in findings(cast(Any, bench))[:2])


def test_a_tie_is_no_choice() -> None:
    nothing = {"cosine": (0.0, 0.0), "euclidean": (0.0, 0.0)}
    a, b, c = detector("a", nothing), detector("b", nothing), detector("c", {"cosine": (0.0, 0.4)})
    board = leaderboard([a, b, c], ("weak",))
    assert board.tied == [a.name, b.name, c.name]
    assert board.chosen == a.name
    told = said_of([a, b, c])
    assert told.startswith("3 detectors find equally many of validation patients' copies")
    assert f"of these the first one, {a.name}, finds 0.0" in told.replace("\\", "")
    assert "by cosine (the first of 2 measures that detect as many of validation patients' copies)" in told
    assert "which validation patients chose, finds" in said_of([a, detector("d", {"cosine": (0.7, 0.4)})])
    assert said_of([detector("d", {"cosine": (0.7, 0.4)})]).startswith("The only detector, mlp1")
    assert detector("e", {"cosine": (0.5, 0.1), "euclidean": (0.5, 0.9)}).tied("weak") == ["cosine", "euclidean"]


def test_each_architecture_comes_with_what_validation_chose() -> None:
    good, lucky = detector("good", {"cosine": (0.9, 0.5)}), detector("lucky", {"cosine": (0.2, 0.99)})
    other = detector("c", {"cosine": (0.5, 0.5)})
    other = Detector(read_backbone("small_cnn@none=c"), "none", other.measured, 0)
    table = {t.name: t for t in paper_tables([good, lucky, other], "weak")}["table_4"].ours
    assert table[["first", "second"]].to_numpy().tolist() == [[good.name, other.name]]


def test_losses_are_compared_within_a_backbone() -> None:
    shares_of = {"none": 0.1, "triplet": 0.9, "infonce": 0.5}
    three = [detector("a", {"cosine": (0.5, share)}, loss=loss) for loss, share in shares_of.items()]
    tables = {t.name: t.ours for t in paper_tables([*three, detector("b", {"cosine": (0.5, 0.5)})], "weak")}
    (row,) = tables["table_3"].to_dict("records")
    assert (row["first"], row["second"]) == ("mlp1 (a, Triplet)", "mlp1 (a, InfoNCE)")
    shares = [d.share("cosine", "weak", "test") for d in three]
    assert row["difference"] == pytest.approx(shares[1] - shares[2])
    assert tables["trained"]["difference"].tolist() == pytest.approx([shares[1] - shares[0], shares[2] - shares[0]])
    assert tables["table_2"]["first"].tolist() == ["mlp1 (a, untrained)"]  # only the untrained one has both weights


def test_intervals_are_over_patients_whatever_the_seeds() -> None:
    d = detector("a", {"cosine": (0.5, 0.5)}, seeds=3)
    assert d.n_seeds == 3
    for rate in (d.rate("cosine", "weak", "test"), d.rate("cosine", "weak", "validation")):
        assert rate.trials == N // 2
    assert d.false_flags("cosine", "weak", "test").trials == 20
    assert d.false_flags("cosine", "weak", "test").successes == 1


def test_detectors_without_a_measure_stand_in_no_row() -> None:
    broken = detector("a", {"cosine": (0.5, 0.5)})
    nothing = [Measurement(m.job, m.measure, m.strength, "why", {}, None, "") for m in broken.measured]
    assert not len(leaderboard([Detector(broken.backbone, "none", nothing, 0)], ("weak",)).rows)
