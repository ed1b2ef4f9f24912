"""The null keeps its level: a generator that saw nobody of either part, asked with features that are fitted or not.

Exact by exchangeability (METHODS section 5): the number of training patients with p <= 0.05 is beta-binomial. The last
test shows that this one could fail: features fitted on the training images alone are nearer to them.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import betabinom, binom

from memorisk.audits.comparison.distances import PixelCopies, measure_distances
from memorisk.audits.comparison.features import FeatureTables, fit_similarity, open_detectors
from memorisk.audits.comparison.plants import no_plants
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.synthetic.findings import Findings, compute_findings
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.audits.synthetic.pixel_counts import near_p
from memorisk.images.copies.near_copies import NO_PAIRS, BestMatches, NearCopies
from memorisk.runs.workload import no_progress
from memorisk.scores.distances import fit_measure, nearest
from memorisk.statistics.copies.reversed_queries import reversed_queries
from memorisk.statistics.exchangeability.neighbours import neighbour_test
from tests.audits.synthetic.making import parts, store_of
from tests.thorough import thorough

N_TRAIN, N_HELD, N_SYNTHETIC = 60, 39, 40
NONE = frozenset[str]()
NO_THUMBNAILS = np.empty((0, 32, 32), np.uint8)


def audited(tmp_path: Path, seed: int, measure: str, each: int = 1, near_row: int | None = None) -> Findings:
    """The audit of blended digits on pixels as they are, without pictures and files."""
    train, held, synthetic = images = parts(seed, N_TRAIN * each, N_HELD, N_SYNTHETIC)
    stores = [store_of(i, tmp_path, n) for i, n in ((train, "train"), (synthetic, "set"), (held, "held"))]
    if each > 1:
        stores[0] = store_of(train, tmp_path, "train", groups=np.repeat(np.arange(N_TRAIN), each))
    sets = Sets(*stores, 0, 0, frozenset(), ())
    options = synthetic_options({"features": "pixels", "plants": 0, "measure": measure})
    flat = [(part / 255).reshape(len(part), -1).astype(np.float32) for part in images]
    copies = copies_of_nobody(len(train), N_HELD, N_SYNTHETIC)
    if near_row is not None:
        one = np.array([near_row]), np.ones(1), np.ones(1, bool)
        pair = NearCopies(np.zeros(1, np.intp), one[0], one[1], one[1], one[2], ~one[2], 1)
        copies = replace(copies, near_train=pair)
    return found_of(sets, flat, copies, options)


def found_of(sets: Sets, flat: list[np.ndarray], copies: PixelCopies, options: SyntheticOptions) -> Findings:
    """The audit of training, held-out and synthetic features."""
    described = SimpleNamespace(encoder="pixels", state="no network")
    found = FeatureTables(flat[0], flat[1], flat[2], flat[0][:0], described, True, (), 0, 0)  # pyright: ignore
    fitted = fit_similarity(open_detectors(options, sets)[0], found, sets)
    plants = no_plants(sets.train)
    distances = measure_distances(found, fitted, sets, plants, no_progress)
    return compute_findings(sets, [distances], copies, plants, options)


def copies_of_nobody(n_train: int, n_held: int, n_synthetic: int) -> PixelCopies:
    """No pair of equal or nearly equal pixels."""
    nowhere = np.full(n_synthetic, -1)
    far = BestMatches(nowhere + 1, np.zeros(n_synthetic, np.float32), np.zeros(n_synthetic, bool))
    return PixelCopies(nowhere, nowhere, nowhere > 0, nowhere, far, NO_PAIRS, NO_PAIRS, NO_THUMBNAILS)


@pytest.mark.parametrize(("measure", "audits"), [("euclidean", 40), thorough("mahalanobis", 20)])
def test_the_level_over_audits(tmp_path: Path, measure: str, audits: int) -> None:
    found = [audited(tmp_path, seed, measure) for seed in range(audits)]
    asked = [f.queries for f in found if f.queries is not None]
    share = np.array([(a.p_value <= 0.05).mean() for a in asked])
    c = int(0.05 * (N_HELD + 1))
    sd = betabinom.std(N_TRAIN, c, N_HELD + 1 - c) / N_TRAIN / np.sqrt(audits)
    assert len(asked) == audits
    assert share.mean() == pytest.approx(c / (N_HELD + 1), abs=3 * sd)
    assert sum(a.p_ahead <= 0.05 for a in asked) <= binom.ppf(0.999, audits, 0.05)
    assert sum(a.listed.n_rejected > 0 for a in asked) <= binom.ppf(0.999, audits, 0.1)


def test_five_images_a_training_patient_are_no_copy(tmp_path: Path) -> None:
    """Held-out patients have one: compared by all images, honest sets would be called copies in most audits."""
    found = [audited(tmp_path, seed, "euclidean", each=5) for seed in range(20)]
    asked = [f.queries for f in found if f.queries is not None]
    assert all(a.counted.one_each and (a.n_images == 5).all() for a in asked)
    assert sum(a.p_ahead <= 0.05 for a in asked) <= binom.ppf(0.999, len(found), 0.05)
    assert np.mean([(a.p_value <= 0.05).mean() for a in asked]) <= 0.05  # the list compares at as many images
    counted = set(asked[0].counted.train.tolist())
    other, one = next(row for row in range(300) if row not in counted), min(counted)
    near = [audited(tmp_path, 0, "euclidean", 5, row).pixels for row in (other, one)]
    assert [pixels.n_near_train_patients for pixels in near] == [1, 1]
    assert near[0].near_p is None
    assert near[1].near_p == pytest.approx(N_TRAIN / (N_TRAIN + N_HELD))


@pytest.mark.thorough
def test_many_images_a_held_out_patient_make_no_other_hospital(tmp_path: Path) -> None:
    """More images are more often the nearest: by all of them a random split is taken for two data sets."""
    found, by_all, m, n_held, each = [], [], 40, 60, 15
    groups = np.r_[np.arange(m), np.repeat(np.arange(n_held), each) + m]
    n, options = len(groups), synthetic_options({"features": "pixels", "plants": 0, "measure": "euclidean"})
    pixels = np.zeros((n, 8, 8, 1), np.uint8)
    for seed in range(80):
        rng = np.random.default_rng([3, seed])
        points = rng.normal(size=(m + n_held, 2))[groups] + 0.7 * rng.normal(size=(n, 2))
        real = [points[:m], points[m:]]
        held = store_of(pixels[m:], tmp_path, "held", groups=groups[m:])
        sets = Sets(store_of(pixels[:m], tmp_path, "train"), store_of(pixels[:9], tmp_path), held, 0, 0, NONE, ())
        flat = [part.astype(np.float32) for part in (real[0], rng.normal(size=(9, 2)), real[1])]
        unlike = found_of(sets, [flat[0], flat[2], flat[1]], copies_of_nobody(m, len(real[1]), 9), options).unlike
        assert unlike is not None
        found.append(unlike.p_value <= 0.01)
        apart = ((points[:, None] - points) ** 2).sum(-1)
        apart[groups[:, None] == groups] = np.inf
        by_all.append(neighbour_test(apart.argmin(1), groups, groups >= m, seed=seed).p_value <= 0.01)
    assert sum(found) <= binom.ppf(0.999, len(found), 0.01) < sum(by_all)


@pytest.mark.thorough
def test_components_of_the_training_images_alone_would_not_keep_it() -> None:
    share = []
    for seed in range(12):
        train, held, synthetic = (x.reshape(len(x), -1) / 255 for x in parts(seed, N_TRAIN, N_HELD, N_SYNTHETIC))
        mean = train.mean(0)
        directions = np.linalg.svd(train - mean, full_matrices=False)[2][:40]
        a, b, s = ((x - mean) @ directions.T for x in (train, held, synthetic))
        measure = fit_measure("mahalanobis", a)
        d = [nearest(x, s, measure).distances[:, 0] for x in (a, b)]
        share.append((reversed_queries(d[0], d[1]).p_value <= 0.05).mean())
    assert np.mean(share) > 0.10


def test_near_copies_by_chance_are_hypergeometric() -> None:
    assert near_p(0, 3, 60, 40) == 1.0
    assert near_p(2, 0, 60, 40) == pytest.approx(60 / 100 * 59 / 99)
    assert np.isnan(near_p(0, 0, 60, 40))
    assert np.isnan(near_p(3, 0, 60, 0))
