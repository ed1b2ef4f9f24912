"""An audit by parts: crops and pasted regions have their sources among the candidates, and roles are not confused."""

import numpy as np
import pytest

from memorisk.audits.generated import features
from memorisk.audits.generated.sets import Sets
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.run import gather_evidence
from memorisk.runs.workload import no_progress
from memorisk.scores.parts import PartsSimilarity
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
    assert right["default:enlarged"][kind == "cropped"].all()
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
