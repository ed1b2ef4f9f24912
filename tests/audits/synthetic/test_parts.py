"""An audit by parts: crops and pasted regions have their sources among the candidates, and roles are not confused."""

import numpy as np
import pytest
from scipy import stats

from memorisk.audits.comparison import features
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.synthetic.findings import _larger_cut, compute_findings
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.run import gather_evidence
from memorisk.runs.workload import no_progress
from memorisk.scores.parts import PartsSimilarity
from memorisk.statistics.copies.singled_out import tail_cut
from tests.audits.synthetic.making import store_of
from tests.images.copies.test_alignment import picture


def test_each_kind_of_copy_is_nearest_to_its_source_by_some_way(tmp_path):
    images = np.stack([picture(seed, 64, 64) for seed in range(90)])
    sets = Sets(
        store_of(images[:40], tmp_path, "train"), store_of(images[40:60], tmp_path, "set"),
        store_of(images[60:], tmp_path, "held"), 0, 0, frozenset(), (),
    )  # fmt: skip
    options = SyntheticOptions(plants=4, plant_kinds=("noised", "cropped", "pasted"))
    evidence = gather_evidence(sets, options, no_progress)
    nearest = {view.name.partition(",")[0]: view.distances for view in evidence.views}
    kind, source = evidence.plants.kind, evidence.plants.source
    right = {name: d.candidates.plants[:, 0] == source for name, d in nearest.items()}
    assert right["default:views"][kind == "cropped"].all()
    assert right["default:places"][kind == "pasted"].all()
    assert right["details"][kind == "noised"].all()
    for view in evidence.views:
        made, train = view.features.synthetic, view.features.train
        scores = np.stack([view.similarity.scores(made, np.repeat(train[[k]], len(made), axis=0)) for k in range(40)])
        np.testing.assert_allclose(view.distances.train, -scores.max(axis=1), atol=1e-6)
        np.testing.assert_allclose(view.distances.synthetic, -scores.max(axis=0), atol=1e-6)
    assert [view.distances.of_parts for view in evidence.views] == [False, True, True, True]


def test_parts_are_fitted_on_some_images_of_both_real_parts(tmp_path, monkeypatch: pytest.MonkeyPatch):
    images = np.stack([picture(seed, 64, 64) for seed in range(31)])
    stores = (store_of(images[rows], tmp_path, name) for name, rows in (
        ("train", slice(0, 15)), ("set", slice(15, 20)), ("held", slice(20, 31)),
    ))  # fmt: skip
    sets, options = Sets(*stores, 0, 0, frozenset(), ()), SyntheticOptions(detector=("default:places",), plants=0)
    monkeypatch.setattr(features, "FITTED_IMAGES", 9)  # 26 real images: every third
    (view,) = gather_evidence(sets, options, no_progress).views
    every_third = np.concatenate([view.features.train[::3], view.features.held[::3]])
    (detector,) = features.open_detectors(options, sets)
    expected, fitted = detector.similarity(every_third), view.similarity
    assert isinstance(expected, PartsSimilarity)
    assert isinstance(fitted, PartsSimilarity)
    np.testing.assert_array_equal(fitted.measure.mean, expected.measure.mean)
    np.testing.assert_array_equal(fitted.measure.whitening, expected.measure.whitening)


def test_windows_and_details_list_nobody_beside_whole_images(tmp_path):
    """A generator fitted to a few images draws from what they span: by details they are nearer, by no copy."""
    rng = np.random.default_rng(0)
    people = np.stack([picture(seed, 32, 32) for seed in range(160)])
    train, held = people[:80], people[80:]
    flat = train.reshape(80, -1) / 255
    _, size, directions = np.linalg.svd(flat - flat.mean(0), full_matrices=False)
    drawn = flat.mean(0) + rng.standard_normal((60, 10)) * (size[:10] / np.sqrt(79)) @ directions[:10]
    made = np.rint(255 * drawn.clip(0, 1)).astype(np.uint8).reshape(60, *people.shape[1:])
    stores = [store_of(x, tmp_path, name) for x, name in ((train, "train"), (made, "set"), (held, "held"))]
    sets = Sets(*stores, 0, 0, frozenset(), ())
    verdicts = {}
    for detector in ((), ("details",)):
        options = SyntheticOptions(detector=detector, plants=0)
        evidence = gather_evidence(sets, options, no_progress)
        found = compute_findings(
            sets, [view.distances for view in evidence.views], evidence.copies, evidence.plants, options
        )
        verdicts[detector] = found
    alone, every = verdicts[("details",)], verdicts[()]
    assert alone.p_ahead < 0.01  # the signal is there
    assert every.by[3].queries is not None
    assert every.by[3].queries.ahead == alone.by[0].queries.ahead
    assert every.p_ahead == pytest.approx(every.by[0].queries.p_ahead)
    assert every.ahead_by == 0
    assert not (every.leader != 0).any()
    assert [int(one.queries.listed.rejected.sum()) for one in every.by[1:]] == [0, 0, 0]


def test_details_single_out_a_copy_and_no_draw_of_a_fitted_generator(tmp_path):
    """By details all training people lie nearer to such a set; beyond held-out people alone lie three of its images."""
    rng = np.random.default_rng(0)
    people = np.stack([picture(seed, 32, 32) for seed in range(400)])
    train, held = people[:200], people[200:]
    flat = train.reshape(200, -1) / 255
    _, size, directions = np.linalg.svd(flat - flat.mean(0), full_matrices=False)
    directions *= np.sign(directions[np.arange(200), np.abs(directions).argmax(axis=1)])[:, None]  # on any processor
    drawn = flat.mean(0) + rng.standard_normal((150, 100)) * (size[:100] / np.sqrt(199)) @ directions[:100]
    made = np.rint(255 * drawn.clip(0, 1)).astype(np.uint8).reshape(150, *people.shape[1:])
    made[7] = np.clip(train[3] + rng.normal(0, 6, train[3].shape), 0, 255)
    stores = [store_of(x, tmp_path, name) for x, name in ((train, "train"), (made, "set"), (held, "held"))]
    sets, options = Sets(*stores, 0, 0, frozenset(), ()), SyntheticOptions(detector=("details",), plants=0)
    evidence = gather_evidence(sets, options, no_progress)
    distances = [view.distances for view in evidence.views]
    findings = compute_findings(sets, distances, evidence.copies, evidence.plants, options)
    assert np.flatnonzero(findings.singled).tolist() == [7]
    assert findings.singled_patients.tolist() == [sets.train.manifest.groups[3]]


def test_of_two_cuts_the_larger_counts_and_copies_do_not_raise_it():
    rng = np.random.default_rng(1)
    held = tail_cut(rng.exponential(size=200), 500, 0.01)
    fitted = _larger_cut(held, 3 * rng.exponential(size=500), 500, 0.01)
    assert fitted.cut > 2 * held.cut
    copied = np.concatenate([rng.exponential(size=480), np.full(15, 40.0), np.full(5, np.inf)])
    assert _larger_cut(held, copied, 500, 0.01).cut < 40
    assert _larger_cut(held, np.full(500, np.inf), 500, 0.01) is held


def test_no_draw_of_a_fitted_generator_is_beyond_the_larger_cut():
    """All training people nearer, by a shift and a wider spread: the expected number beyond the cut keeps its level."""
    rng, sets, chance = np.random.default_rng(2), 400, 0.05
    beyond = 0
    for _ in range(sets):
        held, own = rng.exponential(size=250), 1.0 + 1.5 * rng.exponential(size=500)
        cut = _larger_cut(tail_cut(held, 500, chance), own, 500, chance)
        beyond += int((own > cut.cut).sum())
    assert beyond <= stats.poisson.ppf(0.999, sets * chance)
