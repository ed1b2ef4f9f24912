"""Detectors with a head: exact against all pairs by definition, the machinery of section 5 unchanged, level shared."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import betabinom, binom

from memorisk.audits.comparison.distances import measure_distances
from memorisk.audits.comparison.features import FeatureTables, display_names
from memorisk.audits.comparison.plants import no_plants
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.comparison.terms import SAME_IDENTITY, SET_TO_TRAINING, TWO_IDENTITIES
from memorisk.audits.synthetic.findings import compute_findings
from memorisk.audits.synthetic.options import synthetic_options
from memorisk.audits.synthetic.run import audit_synthetic, gather_evidence
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.workload import no_progress
from memorisk.scores.distances import fit_measure
from memorisk.scores.similarity import HeadSimilarity, MeasureSimilarity
from memorisk.training.detectors.pair_detectors import open_pair_detector
from tests.audits.synthetic.heads import NAME, head, use_heads
from tests.audits.synthetic.making import N_HELD, N_TRAIN, parts, store_of
from tests.audits.synthetic.test_level import copies_of_nobody
from tests.models.test_lcmem import made

COPIED = 16
SIZES = {"train": 30, "held": 25, "set": 20}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    use_heads(monkeypatch)
    return tmp_path


def made_sets(place: Path, copied: int = COPIED, per_patient: int = 1) -> Sets:
    train, held, synthetic = parts()
    moved = np.random.default_rng(5).integers(-6, 7, (copied, 8, 8, 1))
    synthetic[:copied] = np.clip(train[:copied].astype(int) + moved, 0, 255)
    stores = [
        store_of(images, place, name, groups=[f"{name}-p{row // per_patient}" for row in range(len(images))])
        for name, images in (("train", train), ("set", synthetic), ("held", held))
    ]
    return Sets(stores[0], stores[1], stores[2], 0, 0, frozenset(), ())


def audited(sets: Sets, out: str, *detectors: str, **settings) -> Result:
    given = {"plants": 2, "one_image_per_patient": True, "detector": detectors} | settings
    found = audit_synthetic(sets.train, sets.synthetic, held_out=sets.held, out=out, **given)
    assert isinstance(found, Result)
    return found


def logits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, m] by definition."""
    flat = [(x / 255).reshape(len(x), -1).astype(np.float32).astype(np.float64) for x in (a, b)]
    return head().bias + np.abs(flat[0][:, None] - flat[1][None]) @ head().weight


def test_distances_of_a_head_are_minus_its_logits(place: Path) -> None:
    sets = made_sets(place, per_patient=2)
    evidence = gather_evidence(sets, synthetic_options({"detector": (NAME,), "plants": 2}), no_progress)
    (view,) = evidence.views
    assert sets.held is not None
    train, held, synthetic = (np.asarray(s.images) for s in (sets.train, sets.held, sets.synthetic))
    d = view.distances
    np.testing.assert_allclose(d.train, -logits(train, synthetic).max(1), atol=1e-9)
    np.testing.assert_allclose(d.held, -logits(held, synthetic).max(1), atol=1e-9)
    to_train = logits(synthetic, train)
    np.testing.assert_array_equal(d.nearest, to_train.argmax(1))
    patients = sets.train.manifest.groups
    others = np.where(patients[None] == patients[d.nearest][:, None], -np.inf, to_train)
    np.testing.assert_allclose(d.second, -others.max(1), atol=1e-9)
    copies = logits(evidence.plants.pixels, train)
    of_source = np.where(patients[None] == patients[evidence.plants.source][:, None], copies, -np.inf)
    np.testing.assert_allclose(d.plant_source, -of_source.max(1), atol=1e-9)
    one, other = view.features.train[:20], view.features.synthetic[:20]
    scores = view.similarity.scores
    np.testing.assert_array_equal(scores(one, other), scores(other, one))
    assert view.spread is not None
    real = logits(*2 * [np.concatenate([train, held])])[np.triu_indices(N_TRAIN + N_HELD, 1)]
    named = np.concatenate([patients, sets.held.manifest.groups])
    same = (named[:, None] == named[None])[np.triu_indices(N_TRAIN + N_HELD, 1)]
    edges = view.spread.edges.copy()
    edges[0], edges[-1] = -np.inf, np.inf
    for kind, values in (
        (SAME_IDENTITY, real[same]),
        (TWO_IDENTITIES, real[~same]),
        (SET_TO_TRAINING, to_train.ravel()),
    ):
        np.testing.assert_array_equal(view.spread.counts[kind], np.histogram(values, edges)[0])
    assert view.spread.above_itself == (real[~same] >= head().bias).sum()


def test_copies_are_listed_by_a_head_with_their_probability(place: Path) -> None:
    sets = made_sets(place)
    found = audited(sets, "run", NAME)
    listed = found.per_group[found.per_group["listed"]]
    assert {f"train-p{row}" for row in range(COPIED)} <= set(listed["group"])
    assert len(listed) <= COPIED + 2
    np.testing.assert_allclose(listed["probability"], expit(-listed["distance"]))
    assert listed["listed_by"].eq(NAME).all()
    assert found.per_image["second_ratio"].isna().all()
    (row,) = found.tables["detectors"].to_dict("records")
    assert row["above_half"] == (found.per_group["distance"] < 0).mean() > row["above_half_held"]
    assert found.tables["kinds"].set_index("kind").loc["exact", "above_half"] == 1.0
    page = Path("run/report.html").read_text()
    assert "All pairs by the detector&#39;s logit" in page or "All pairs by the detector's logit" in page
    assert "Minus the logit" in page
    assert "An image and itself have P = 0.95" in page
    assert "Exact copies do not stand out" not in page


def test_several_detectors_share_the_level_and_any_may_list(place: Path) -> None:
    sets = made_sets(place)
    alone = {name: audited(sets, f"{name[-2:]}-half", name, level=0.05) for name in (NAME, "pixels")}
    both = audited(sets, "both", NAME, "pixels", level=0.1)
    lists = {name: set(r.per_group.loc[r.per_group["listed"], "group"]) for name, r in alone.items()}
    listed = both.per_group[both.per_group["listed"]]
    assert set(listed["group"]) == lists[NAME] | lists["pixels"]
    for group, by in zip(listed["group"], listed["listed_by"], strict=True):
        assert [name.split(",")[0] for name in by.split("; ")] == [n for n in lists if group in lists[n]]
    assert both.verdict["n_listed"] == len(listed)
    assert both.verdict["shortest_list"] == alone[NAME].verdict["shortest_list"]
    assert both.verdict["p_ahead"] == min(1, 2 * min(r.verdict["p_ahead"] for r in alone.values()))
    plants = both.tables["plants"]
    any_of = plants.assign(found=plants["found"] | plants["identical"]).groupby(["kind", "image"])["found"].any()
    together = plants.groupby(["kind", "image"])["found_by_any"].first()
    assert together.equals(any_of.rename("found_by_any"))
    assert both.tables["images_by_detector"]["detector"].value_counts().tolist() == [150, 150]
    np.testing.assert_array_equal(
        both.per_group.sort_values("group")["p_value"],
        np.minimum(*(r.per_group.sort_values("group")["p_value"] for r in alone.values())),
    )


def test_the_level_holds_for_a_head_beside_a_measure(place: Path) -> None:
    """As `test_level`, of a head alone and of both together: nobody is copied."""
    audits, sizes = 24, (60, 39, 40)
    share, listed, ahead = [], 0, 0
    for seed in range(audits):
        images = parts(seed, *sizes)
        stores = [store_of(i, place, n) for i, n in zip(images, ("train", "held", "set"), strict=True)]
        sets = Sets(stores[0], stores[2], stores[1], 0, 0, frozenset(), ())
        flat = [(part / 255).reshape(len(part), -1).astype(np.float32) for part in images]
        found = FeatureTables(*flat, flat[0][:0], None, True, (), 0, 0)  # pyright: ignore
        measure = MeasureSimilarity(fit_measure("euclidean", flat[0]))
        distances = [
            measure_distances(found, similarity, sets, no_plants(sets.train), no_progress)
            for similarity in (HeadSimilarity(head()), measure)
        ]
        options = synthetic_options({"detector": (NAME, "pixels"), "plants": 0})
        said = compute_findings(sets, distances, copies_of_nobody(*sizes), no_plants(sets.train), options)
        asked = said.by[0].queries
        assert asked is not None
        share.append((asked.p_value <= 0.05).mean())
        listed, ahead = listed + bool(said.listed.any()), ahead + (said.p_ahead <= 0.05)
    c = int(0.05 * (sizes[1] + 1))
    sd = betabinom.std(sizes[0], c, sizes[1] + 1 - c) / sizes[0] / np.sqrt(audits)
    assert np.mean(share) == pytest.approx(c / (sizes[1] + 1), abs=3 * sd)
    assert listed <= binom.ppf(0.999, audits, 0.1)
    assert ahead <= binom.ppf(0.999, audits, 0.05)


def test_the_atlas_is_computed_once(place: Path) -> None:
    sets = made_sets(place)
    first = gather_evidence(sets, synthetic_options({"detector": ("small_cnn@none",), "plants": 1}), no_progress)
    assert first.views[0].features.atlas_computed == N_TRAIN
    other = store_of(parts(seed=3)[2], place, "other")
    for held in (sets.held, None):
        again = gather_evidence(replace(sets, synthetic=other, held=held),
                       synthetic_options({"detector": ("small_cnn@none",), "plants": 1}), no_progress)  # fmt: skip
        assert again.views[0].features.atlas_computed == 0
        assert again.views[0].features.computed == (len(other.images) + 15 if held is not None else 0)
        np.testing.assert_array_equal(again.views[0].features.train, first.views[0].features.train)


def test_what_does_not_go_together_is_refused(place: Path) -> None:
    for settings, words in (
        ({"detector": ("pixels",), "features": "pixels"}, "leave features and measure out"),
        ({"detector": ("pixels",), "measure": "cosine"}, "leave features and measure out"),
        ({"detector": ("pixels", "pixels")}, "named twice"),
    ):
        with pytest.raises(InputError, match=words):
            synthetic_options(settings)
    assert synthetic_options({"detector": "pixels"}).sources == ("pixels",)
    assert synthetic_options({"detector": ["pixels", Path("pixels:4")]}).shared_level == 0.05
    np.savez(place / "f.npz", features=np.ones((N_TRAIN, 2)))
    sets = made_sets(place)
    with pytest.raises(InputError, match="a file of features is used alone"):
        audited(sets, "run", "f.npz", "pixels")
    (place / "trained" / "detector").mkdir(parents=True)
    with pytest.raises(InputError, match=r"trained holds no detector: there is no detector.json in it$"):
        audited(sets, "run", "trained")
    (place / "trained" / "detector" / "detector.json").touch()
    with pytest.raises(InputError, match="did you mean trained/detector"):
        audited(sets, "run", "trained")
    with pytest.raises(InputError, match="there is no folder nowhere/detector"):
        audited(sets, "run", "nowhere/detector")
    assert not Path("run").exists()
    twins = [open_pair_detector("pixels"), open_pair_detector("pixels"), open_pair_detector("pixels:4")]
    assert display_names(twins) == ("pixels, euclidean (1)", "pixels, euclidean (2)", "pixels:4, euclidean")


def test_a_trained_folder_brings_its_head_and_knows_whom_it_saw(place: Path) -> None:
    """An LCMem detector's folder: probabilities are its own, and one that knows one part only is refused."""
    detector = made(place / "made")
    none = detector.seen.iloc[:0]
    replace(detector, seen=none).save(place / "lcmem")
    rng = np.random.default_rng(0)
    images = {name: rng.integers(0, 256, (n, 16, 16, 1), dtype=np.uint8) for name, n in SIZES.items()}
    images["set"][:6] = images["train"][:6]
    stores = {name: store_of(x, place, name) for name, x in images.items()}
    sets = Sets(stores["train"], stores["set"], stores["held"], 0, 0, frozenset(), ())
    replace(detector, seen=none).save(place / "one" / "detector")
    replace(detector, seen=none).save(place / "two" / "detector")
    both = [open_pair_detector(place / name / "detector") for name in ("one", "two")]
    assert display_names(both) == ("detector:one/detector", "detector:two/detector")
    for text in (str(place / "lcmem"), f"detector:{place / 'lcmem'}"):
        evidence = gather_evidence(sets, synthetic_options({"detector": (text,), "plants": 1}), no_progress)
        view = evidence.views[0]
        assert view.has_head
        assert "0 of 30 training patients and 0 of 25 held-out" in " ".join(view.features.notes)
        own = detector.probability(images["set"], images["train"][view.distances.nearest])
        np.testing.assert_allclose(expit(-view.distances.synthetic[6:]), own[6:], atol=1e-6)
        np.testing.assert_allclose(expit(-view.distances.train[:6]), expit(view.similarity.head.bias), atol=1e-6)
    hashes = pd.DataFrame({"part": "training", "pixel_hash": sets.train.pixel_hashes, "group_hash": "x"})
    stored = replace(detector.config, stored=(16, 16, 1), groups_given=False)
    replace(detector, seen=hashes, config=stored).save(place / "knows")
    with pytest.raises(InputError, match="30 of 30 training patients and 0 of 25 held-out"):
        audited(sets, "run", str(place / "knows"))
