"""Numbers of the tables against the files of distances, computed another way."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from memorisk.statistics.copies.copy_detection import null_halves
from memorisk.statistics.copies.detector_comparison import paired_hits
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.studies.detectors.cells import CellJob
from memorisk.studies.detectors.detection import Detector
from memorisk.studies.detectors.pools import NULLS, POOLS
from memorisk.studies.detectors.results import Benchmark
from memorisk.studies.detectors.tables import published_mean, t_test

Benched = tuple[Path, Benchmark]
STRENGTH = "strong"


def arrays(job: CellJob, measure: str) -> Any:
    return np.load(job.folder / f"{measure}.npz", allow_pickle=False)


def by_hand(out: Path, job: CellJob, measure: str, pool: str, strength: str = STRENGTH) -> dict[str, Any]:
    """Corrected rates of one pool from the files alone: split.parquet and the measure's arrays."""
    split, found = pd.read_parquet(out / "split.parquet"), arrays(job, measure)
    patient, part, pixels = (split[c].to_numpy() for c in ("patient", "part", "pixels"))
    rows = np.flatnonzero((part == pool) & split["reference"].to_numpy())
    null_rows = np.flatnonzero(part == NULLS[pool])
    smallest = pd.Series(found[f"null_{pool}"]).groupby(patient[null_rows]).min()
    # half of the null's patients make the threshold: the largest order statistic k with k / (n + 1) <= 5 %
    ids = np.array(sorted(smallest.index))
    first = np.random.default_rng(0).permutation(len(ids))[: (len(ids) + 1) // 2]
    made = np.sort(smallest[ids[first]].to_numpy())
    threshold = made[int(np.floor(0.05 * (len(made) + 1) + 1e-9)) - 1]
    flagged = (np.delete(smallest[ids].to_numpy(), first) < threshold).mean()
    distance, index = found[f"{strength}_{pool}_distance"], found[f"{strength}_{pool}_index"]
    right = pixels[index] == pixels[rows]
    return {"threshold": threshold, "recognised": distance < threshold, "right": right, "flagged": flagged,
            "patient": patient[rows]}  # fmt: skip


@pytest.mark.parametrize("pool", POOLS)
def test_corrected_rates_are_those_of_the_files(benched: Benched, pool: str) -> None:
    out, found = benched
    for d in found.detectors:
        for measure in found.options.chosen_measures:
            for m in d.of(measure, STRENGTH):
                hand = by_hand(out, m.job, measure, pool)
                read = m.pools[pool]
                assert read.detection.threshold.value == hand["threshold"]
                assert (read.detected == (hand["recognised"] & hand["right"])).all()
                assert read.detection.detection.share == hand["recognised"].mean()
                assert read.detection.false_flags.estimate == pytest.approx(hand["flagged"])
                assert read.flagged.mean() == pytest.approx(hand["flagged"])
                # one image a patient: the drawn copies are all copies
                expected = clopper_pearson(int(read.detected.sum()), len(read.detected))
                assert read.detection.detection.right == expected


def test_published_ratios_are_those_of_the_files(benched: Benched) -> None:
    out, found = benched
    split = pd.read_parquet(out / "split.parquet")
    for d in found.detectors:
        for m in (m for m in d.measured if m.published):
            held, published = arrays(m.job, m.measure), m.published
            assert published is not None
            tau = np.percentile(held["published_baseline"], 5)
            for pool in ("train", "validation"):
                scores = held[f"published_{m.strength}_{pool}_score"]
                assert len(scores) == (split["part"] == pool).sum()  # the whole part, not the equal pool
                assert published.pools[pool].detection.share == np.mean(scores < tau)
                assert published.new_patients[pool].estimate == np.mean(held[f"published_null_{pool}"] < tau)


def test_the_measure_is_chosen_on_validation_and_judged_on_test(benched: Benched) -> None:
    out, found = benched
    board = {row["name"]: row for row in found.board.rows.to_dict("records")}
    for d in found.detectors:
        shares = {}
        for measure in d.measures(STRENGTH):
            hands = [by_hand(out, m.job, measure, "validation") for m in d.of(measure, STRENGTH)]
            shares[measure] = np.mean([(h["recognised"] & h["right"]).mean() for h in hands])
        chosen = max(shares, key=lambda m: shares[m])
        row = board[d.name]
        assert row["measure"] == chosen
        hands = [by_hand(out, m.job, chosen, "test") for m in d.of(chosen, STRENGTH)]
        assert row["detected_all"] == pytest.approx(np.mean([(h["recognised"] & h["right"]).mean() for h in hands]))


def test_two_seeds_are_one_detector(benched: Benched) -> None:
    found = {d.name: d for d in benched[1].detectors}
    d = found["small_cnn (random, untrained)"]
    assert d.n_seeds == 2
    assert found["pixels (untrained)"].n_seeds == 1
    rate = d.rate("euclidean", "weak", "test")
    shares = [m.pools["test"].detected.mean() for m in d.of("euclidean", "weak")]
    assert rate.trials == len(d.of("euclidean", "weak")[0].pools["test"].source)  # patients, not copies times seeds
    assert min(shares) - 0.15 <= rate.estimate <= max(shares) + 0.15
    single = found["pixels (untrained)"]
    assert (
        single.rate("euclidean", "weak", "test")
        == single.of("euclidean", "weak")[0].pools["test"].detection.detection.right
    )


def test_comparisons_are_paired_tests_over_patients(benched: Benched) -> None:
    found = benched[1]
    by = {d.name: d for d in found.detectors}
    table = {t.name: t for t in found.tables}["table_4"].ours
    assert len(table) == 6  # four architectures
    for row in table.to_dict("records"):
        hits = [_stacked(by[row[which]]) for which in ("first", "second")]
        n = int(np.lcm(*(len(h) for h in hits)))
        a, b = (np.tile(h, (n // len(h), 1)).ravel() for h in hits)
        source = by[row["first"]].of("euclidean", STRENGTH)[0].pools["test"].source
        expected = paired_hits(a, b, np.tile(source, n))
        assert row["p"] == expected.p_value
        assert row["difference"] == pytest.approx(a.mean() - b.mean())
        assert row["n_patients"] == len(np.unique(source))
    assert (table["adjusted"] >= table["p"]).all()
    assert table["adjusted"].min() == pytest.approx(min(1.0, 6 * table["p"].min()))


def _stacked(d: Detector) -> np.ndarray:
    return d.hits(d.chosen(STRENGTH), STRENGTH, "test")


def test_the_papers_p_value_is_a_t_test_over_measures(benched: Benched) -> None:
    found = benched[1]
    by = {d.name: d for d in found.detectors}
    one, other = by["mlp1 (first, untrained)"], by["mlp1 (again, untrained)"]
    table = {t.name: t for t in found.tables}["table_2"]
    assert table.paper["Pretraining"].tolist() == ["first vs again"]
    values = [list(d.published_values(STRENGTH).values()) for d in (one, other)]
    expected = stats.ttest_ind(*values).pvalue if any(np.ptp(v) for v in values) else np.nan
    assert t_test(one, other, STRENGTH) == pytest.approx(expected, nan_ok=True)
    assert published_mean(one, STRENGTH) == pytest.approx(np.mean(values[0]))
    # the same random networks under two names: nothing tells them apart
    assert table.ours["p"].tolist() == [1.0]
    assert table.ours["n_discordant"].tolist() == [0]


def test_numbers_hold_every_rate(benched: Benched) -> None:
    out, found = benched
    numbers = pd.read_parquet(out / "tables" / "numbers.parquet")
    cells = sum(d.n_seeds for d in found.detectors)
    corrected = numbers[numbers["form"] == "corrected"]
    assert len(corrected) == cells * 3 * 2 * 3  # measures, strengths, pools
    row = corrected[(corrected["model"] == "pixels") & (corrected["pool"] == "test")].iloc[0]
    d = found.detectors[0]
    pool = d.of(row["measure"], row["strength"])[0].pools["test"].detection
    assert (row["right"], row["n_right"]) == (pool.detection.right.estimate, pool.detection.right.trials)
    assert row["threshold"] == pool.threshold.value
    assert row["nearest"] == d.of(row["measure"], row["strength"])[0].pools["test"].nearest_is_source.mean()
    assert row["nearest_low"] <= row["nearest"] <= row["nearest_high"]


def test_half_of_the_null_makes_the_threshold_and_the_other_is_counted(benched: Benched) -> None:
    from memorisk.statistics.copies.copy_detection import Queries

    out, found = benched
    split = pd.read_parquet(out / "split.parquet")
    ids = split.loc[split["part"] == "test_null", "patient"].to_numpy().astype(str)
    made, other = null_halves(Queries(np.zeros(len(ids)), ids, 1), 0)
    pool = found.detectors[0].of("euclidean", STRENGTH)[0].pools["test"]
    assert pool.detection.threshold.n_units == made.sum()
    assert pool.detection.false_flags.trials == other.sum()
    assert made.sum() + other.sum() == found.parts.patients("test_null")
