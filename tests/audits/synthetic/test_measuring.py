"""Features and distances: fitted on both real parts alike, exact for exact copies, no detector that knows one part."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memorisk.audits.comparison.features import FeatureTables, fit_similarity, measure_features, open_detectors
from memorisk.audits.comparison.knowledge import KnownPatients, detector_notes, known_patients, knows_both_alike
from memorisk.audits.comparison.plants import Plants, draw_plants, insert_plants, no_plants
from memorisk.audits.comparison.sets import Sets, stack_stores
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.audits.synthetic.run import gather_evidence
from memorisk.models.settings import DEFAULT_COMPARISONS
from memorisk.runs.errors import InputError
from memorisk.runs.workload import no_progress
from memorisk.scores.distances import pairwise
from memorisk.scores.similarity import MeasureSimilarity
from memorisk.training.detectors.pair_detectors import open_pair_detector
from tests.audits.synthetic.making import parts, store_of
from tests.models.test_detectors import make_detector


@pytest.fixture
def sets(tmp_path: Path) -> Sets:
    train, held, synthetic = parts(n_train=40, n_held=30, n_synthetic=50)
    synthetic[:5] = train[:5]
    synthetic[5] = held[2]
    stores = [store_of(i, tmp_path, n) for i, n in ((train, "train"), (synthetic, "set"), (held, "held"))]
    return Sets(*stores, 0, 0, frozenset(), ())


def features_of(sets: Sets, plants: Plants, options: SyntheticOptions) -> FeatureTables:
    (detector,) = open_detectors(options, sets)
    return measure_features(detector, sets, insert_plants(sets.synthetic, plants, 0), options, no_progress)


def test_distances_are_those_of_all_pairs(sets: Sets) -> None:
    patients = np.array([f"p{i // 2}" for i in range(40)], dtype=object)
    table = sets.train.manifest.table.assign(group=patients)
    train = replace(sets.train, manifest=replace(sets.train.manifest, table=table))
    options = synthetic_options({"features": "pixels", "plants": 2})
    assert sets.held is not None
    evidence = gather_evidence(replace(sets, train=train), options, no_progress)
    d, plants = evidence.views[0].distances, evidence.plants
    flat = [np.asarray(s.images).reshape(len(s.images), -1) / 255 for s in (train, sets.synthetic, sets.held)]
    copies = plants.pixels.reshape(plants.n, -1) / 255
    gap = lambda a, b: np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))  # noqa: E731 (one formula)
    np.testing.assert_allclose(d.train, gap(flat[0], flat[1]).min(1), atol=1e-5)
    np.testing.assert_allclose(d.held, gap(flat[2], flat[1]).min(1), atol=1e-5)
    to_train = gap(flat[1], flat[0])
    np.testing.assert_allclose(d.synthetic, to_train.min(1), atol=1e-5)
    np.testing.assert_array_equal(d.nearest, to_train.argmin(1))
    others = np.where(patients[None] == patients[d.nearest][:, None], np.inf, to_train)
    np.testing.assert_allclose(d.second, others.min(1), atol=1e-5)
    among = np.where(patients[:, None] == patients[None], np.inf, gap(flat[0], flat[0]))
    np.testing.assert_allclose(d.among_train, among.min(1), atol=1e-5)
    np.testing.assert_allclose(d.held_to_train, gap(flat[2], flat[0]).min(1), atol=1e-5)
    np.testing.assert_allclose(d.plants, gap(copies, flat[0]).min(1), atol=1e-5)
    of_source = np.where(patients[None] == patients[plants.source][:, None], gap(copies, flat[0]), np.inf)
    np.testing.assert_allclose(d.plant_source, of_source.min(1), atol=1e-5)


def test_a_copy_has_the_features_of_its_source_to_the_last_bit(sets: Sets) -> None:
    for features in ("small_cnn@none", "pixels", "pca:5"):
        found = features_of(sets, no_plants(sets.train), synthetic_options({"features": features}))
        np.testing.assert_array_equal(found.synthetic[:5], found.train[:5])
        np.testing.assert_array_equal(found.synthetic[5], found.held[2])
        assert found.weak == (features != "small_cnn@none")


def test_what_is_fitted_does_not_know_which_part_is_which(sets: Sets) -> None:
    """Exchange the real parts: components and distances stay what they were."""
    assert sets.held is not None
    exchanged = replace(sets, train=sets.held, held=sets.train)
    hidden = insert_plants(sets.synthetic, no_plants(sets.train), 0)
    for features, measure in (("pca:6", "mahalanobis"), ("pixels", "seuclidean")):
        options = synthetic_options({"features": features, "measure": measure})
        between = []
        for given in (sets, exchanged):
            (detector,) = open_detectors(options, given)
            found = measure_features(detector, given, hidden, options, no_progress)
            fitted = fit_similarity(detector, found, given)
            assert isinstance(fitted, MeasureSimilarity)
            real = found.train if given is sets else found.held
            between.append(pairwise(real, found.synthetic, fitted.measure))
        np.testing.assert_allclose(*between, rtol=1e-6, atol=1e-9)


def test_defaults_by_what_compares(sets: Sets, tmp_path: Path) -> None:
    def words(**settings) -> str:
        options = synthetic_options({"features": "pixels"} | settings)
        (detector,) = open_detectors(options, sets)
        fitted = fit_similarity(detector, features_of(sets, no_plants(sets.train), options), sets)
        assert isinstance(fitted, MeasureSimilarity)
        return fitted.measure.plain_words

    assert words() == "euclidean"
    assert words(features="small_cnn@none") == "cosine"
    assert words(features="pca:4") == "euclidean"
    assert words(measure="dice").startswith("dice, true above the column median")
    assert words(features="pca:4", measure="braycurtis", domain="shift").startswith("braycurtis, less the column")
    with pytest.raises(InputError, match="braycurtis is defined for non-negative data; give domain"):
        words(features="pca:4", measure="braycurtis")
    with pytest.raises(InputError, match="Did you mean 'euclidean'"):
        words(measure="euclidian")
    assert words(features="default", measure="whitened").startswith("whitened, Ledoit-Wolf shrinkage")


def test_default_compares_in_four_ways_and_each_once(sets: Sets) -> None:
    def compared(**settings) -> tuple[str, ...]:
        options = synthetic_options(settings)
        assert tuple(one.source.text for one in open_detectors(options, sets)) == options.sources
        whole = [way for way in options.sources if way not in DEFAULT_COMPARISONS[1:]]
        assert options.shared_level == pytest.approx(options.level / len(whole or options.sources))
        return options.sources

    assert compared() == compared(features="default") == compared(detector=("default",)) == DEFAULT_COMPARISONS
    assert compared(detector=("details", "default", "pixels")) == (
        "details", *(way for way in DEFAULT_COMPARISONS if way != "details"), "pixels"
    )  # fmt: skip
    for named in ({"measure": "whitened"}, {"input_size": 32}, {"normalise": "0.5/0.5"}):
        assert compared(**named) == ("default",)  # what is named is of whole images
    assert compared(detector=("default:places",)) == ("default:places",)


def test_saved_features_are_matched_by_id_and_must_be_of_all_sets(sets: Sets, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    files = {}
    assert sets.held is not None
    for name, store in (("train", sets.train), ("set", sets.synthetic), ("held", sets.held)):
        files[name] = tmp_path / f"{name}.npz"
        values = rng.normal(size=(len(store.images), 4))
        order = rng.permutation(len(values))
        np.savez(files[name], features=values[order], image=store.manifest.images[order].astype(str))
        files[f"{name} values"] = values.astype(np.float32)
    given = {"features": str(files["train"]), "synthetic_features": files["set"], "held_out_features": files["held"]}
    found = features_of(sets, no_plants(sets.train), synthetic_options(given))
    for name, values in (("train", found.train), ("set", found.synthetic), ("held", found.held)):
        np.testing.assert_array_equal(values, files[f"{name} values"])
    for missing, words in (("synthetic_features", "those of SYNTHETIC"), ("held_out_features", "held-out images")):
        with pytest.raises(InputError, match=words):
            open_detectors(synthetic_options({k: v for k, v in given.items() if k != missing}), sets)
    with pytest.raises(InputError, match="synthetic_features belongs to a file of features of TRAIN"):
        open_detectors(synthetic_options({"synthetic_features": files["set"]}), sets)
    np.savez(tmp_path / "wide.npz", features=np.ones((50, 5)) * rng.normal(size=(50, 1)))
    with pytest.raises(InputError, match="have 4, 5 columns"):
        features_of(
            sets, no_plants(sets.train), synthetic_options(given | {"synthetic_features": tmp_path / "wide.npz"})
        )
    broken = files["set values"].copy()
    broken[7, 1] = np.nan
    np.savez(tmp_path / "broken.npz", features=broken)
    with pytest.raises(InputError, match=r"1 image has features that are not finite \(set-0007\)"):
        features_of(
            sets, no_plants(sets.train), synthetic_options(given | {"synthetic_features": tmp_path / "broken.npz"})
        )


def test_images_for_which_a_measure_is_undefined_are_named(sets: Sets) -> None:
    images = np.array(sets.synthetic.images)
    images[9] = 0
    black = replace(sets, synthetic=store_of(images, sets.synthetic.folder.parent.parent, "set"))
    for measure, words in (("cosine", "zero"), ("correlation", "all one number")):
        options = synthetic_options({"features": "pixels", "measure": measure, "plants": 0})
        with pytest.raises(InputError, match=rf"1 image has features that are {words}.*\(set-0009\)"):
            gather_evidence(black, options, no_progress)


def test_a_detector_that_knows_one_part_only_is_refused(sets: Sets, tmp_path: Path) -> None:
    assert sets.held is not None
    named = {}
    for key, rows in (("both", np.arange(70)), ("one", np.arange(40)), ("neither", np.arange(0))):
        detector = make_detector(stack_stores([sets.train, sets.held]))
        seen = detector.seen.iloc[:0]
        hashes = np.concatenate([sets.train.pixel_hashes, sets.held.pixel_hashes])[rows]
        seen = seen.assign(part=[], pixel_hash=[], group_hash=[]) if not len(rows) else detector.seen.iloc[:1].loc[
            np.zeros(len(rows), int)].assign(pixel_hash=hashes, group_hash="")  # fmt: skip
        replace(detector, seen=seen.reset_index(drop=True)).save(tmp_path / key)
        named[key] = open_pair_detector(f"detector:{tmp_path / key}")
    assert known_patients(replace(detector, seen=detector.seen.assign(pixel_hash="x")), sets.train) == KnownPatients(
        0, 40
    )
    assert "0 of 40 training patients and 0 of 30 held-out" in detector_notes(named["neither"], sets)[0]
    assert "40 of 40 training patients and 30 of 30 held-out" in detector_notes(named["both"], sets)[0]
    with pytest.raises(InputError, match=r"40 of 40 training patients and 0 of 30 held-out ones; p-values need"):
        detector_notes(named["one"], sets)
    assert "40 of 40 training patients." in detector_notes(named["one"], replace(sets, held=None))[0]
    assert detector_notes(open_pair_detector("pixels"), sets) == ()
    for named_by in ({"features": f"detector:{tmp_path / 'both'}"}, {"detector": (str(tmp_path / "both"),)}):
        options = synthetic_options(named_by)
        found = features_of(sets, draw_plants(sets.train, sets.synthetic, 1, 0), options)
        assert found.plants.shape == (7, 128)
        fitted = fit_similarity(open_detectors(options, sets)[0], found, sets)
        assert isinstance(fitted, MeasureSimilarity)
        assert fitted.measure.name == "cosine"  # what its loss is about


def test_alike_is_nobody_everybody_or_by_chance() -> None:
    assert knows_both_alike(KnownPatients(0, 100), KnownPatients(0, 30))
    assert knows_both_alike(KnownPatients(100, 100), KnownPatients(30, 30))
    assert knows_both_alike(KnownPatients(52, 100), KnownPatients(17, 30))
    assert knows_both_alike(KnownPatients(1, 700), KnownPatients(0, 150))
    assert not knows_both_alike(KnownPatients(9, 100), KnownPatients(0, 30))
    assert not knows_both_alike(KnownPatients(0, 100), KnownPatients(2, 30))
    assert not knows_both_alike(KnownPatients(80, 100), KnownPatients(15, 30))
