"""Who may calibrate: people whom neither the generator nor a detector has seen."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.ndimage import gaussian_filter

from memorisk.audits.comparison.terms import Terms
from memorisk.audits.filter.calibration import (
    calibrate,
    counted_guarantees,
    draw_pairs,
    guaranteed_thresholds,
    identities,
)
from memorisk.audits.filter.families import REIDENTIFICATION, Family, not_promised, parse_families
from memorisk.audits.filter.options import filter_options
from memorisk.audits.filter.result import LookAlikeCounts
from memorisk.audits.filter.screening import open_detectors, open_screening
from memorisk.audits.filter.sets import FilterSets, decode_sets, open_manifests
from memorisk.audits.filter.wording import excluded_words
from memorisk.images.alterations.families import FAMILIES, PLANTED
from memorisk.runs.errors import InputError
from memorisk.runs.workload import no_progress
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from tests.audits.synthetic.making import digits, store_of


def sets_of(tmp_path, train, synthetic, calibration, detectors=(), **settings) -> FilterSets:
    options = filter_options({"detector": "pixels"} | settings)
    opened = open_manifests(train, synthetic, calibration, options, no_progress)
    return decode_sets(opened, detectors, no_progress, calibration_unseen=options.calibration_unseen)


def knowing(hashes: list[str], groups: list[str], *, alike: bool = True, given: bool = True) -> PairDetector:
    """A detector that was trained on some images and patients."""

    def seen_parts(store) -> SimpleNamespace:
        """By patient, and by pixels where they compare."""
        known = np.isin(store.manifest.groups.astype(str), groups)
        known |= np.isin(store.pixel_hashes.astype(str), hashes) if alike else False
        return SimpleNamespace(part=np.where(known, "training", ""), pixels_compared=alike)

    stub = SimpleNamespace(
        seen_parts=seen_parts,
        earlier=None,
        config=SimpleNamespace(groups_given=given),
        seen=pd.DataFrame({"part": "training", "pixel_hash": hashes or ["none"], "group_hash": "x"}),
    )
    return replace(open_pair_detector("pixels"), detector=stub)


def test_people_who_are_not_new_are_left_out_and_counted(tmp_path) -> None:
    images = digits()[:60].copy()
    images[30] = images[3]  # patient c15 has a training image
    train = store_of(images[:20], tmp_path, "train", [f"t{i // 2}" for i in range(20)])
    groups = [f"c{i // 2}" for i in range(28, 58)] + [
        "t1",
        "T01",
    ]  # the same id as a training patient's, and one like it
    new = store_of(images[28:60], tmp_path, "new", groups)
    made = store_of(images[20:28], tmp_path, "made")
    detector = knowing([str(new.pixel_hashes[8])], ["c20"])
    found = sets_of(tmp_path, train, made, new, [detector])
    assert (found.left_out.in_training, found.left_out.same_pixels, found.left_out.known) == (2, 1, 2)
    assert found.calibration is not None
    left = set(found.calibration.manifest.groups)
    assert left == set(groups) - {"t1", "T01", "c15", "c20", groups[8]}
    assert found.unseen == ()


def pixel_changed(images: np.ndarray) -> np.ndarray:
    """The same with one pixel a little darker or brighter."""
    found = images.copy()
    found[:, 2, 2] ^= 3
    return found


def blobs(n: int) -> np.ndarray:
    """[n, 64, 64, 1] smooth noise of which no two are alike."""
    noise = gaussian_filter(np.random.default_rng(5).random((n, 64, 64)), (0, 1.5, 1.5))
    return np.rint(255 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8)[..., None]


def test_people_who_share_an_image_are_one_and_look_alikes_are_so_in_a_second_reading(tmp_path) -> None:
    images = blobs(64)
    train, made = store_of(images[:40], tmp_path, "t", range(40)), store_of(images[40:52], tmp_path, "m")
    twelve = images[52:]
    copies = np.concatenate([twelve, twelve, pixel_changed(twelve)])
    names = [f"invented{i:02}" for i in range(36)]
    found = sets_of(tmp_path, train, made, store_of(copies, tmp_path, "new", names))
    assert (found.merged, found.left_out.n) == (12, 0)
    assert found.calibration is not None
    assert found.calibration.manifest.groups.tolist() == [*names[:12], *names[24:]]
    np.testing.assert_array_equal(np.stack(list(found.calibration.images)), copies[[*range(12), *range(24, 36)]])
    assert found.alike.counts == LookAlikeCounts(of_others=24, as_given=24, as_one=12)
    units = found.alike.unit
    assert all(units[names[i]] == units[names[24 + i]] for i in range(12))
    alone = sets_of(tmp_path, train, made, store_of(copies, tmp_path, "nobody"))
    assert alone.calibration is not None
    assert (len(alone.calibration.images), alone.merged, alone.alike.counts.as_one) == (24, 12, 12)
    assert not alone.calibration.manifest.groups_given
    two_each = store_of(np.concatenate([copies[:24], images[40:52]]), tmp_path, "two", [*names[:24], *names[:12]])
    assert len(identities(Family(REIDENTIFICATION), sets_of(tmp_path, train, made, two_each).calibration)) == 12


def test_people_who_look_like_training_images_calibrate_as_given_and_not_in_the_second_reading(tmp_path) -> None:
    images = blobs(50)
    train, made = store_of(images[:40], tmp_path, "t", range(40)), store_of(images[40:44], tmp_path, "m")
    given = np.concatenate([pixel_changed(images[:3]), pixel_changed(images[3:5])[:, :, ::-1], images[44:]])
    found = sets_of(tmp_path, train, made, store_of(given, tmp_path, "new", [f"p{i:02}" for i in range(11)]))
    assert (found.left_out.n, found.alike.counts) == (
        0,
        LookAlikeCounts(of_training=5, as_given=11, as_one=6),
    )
    assert found.calibration is not None
    assert len(found.calibration.images) == 11
    assert [name for name, unit in found.alike.unit.items() if unit < 0] == [f"p{i:02}" for i in range(5)]
    twins = np.concatenate([pixel_changed(images[:1]), images[45:46], pixel_changed(images[45:46])])
    found = sets_of(tmp_path, train, made, store_of(twins, tmp_path, "twins", ["a", "a", "b"]))
    assert found.alike.counts == LookAlikeCounts(of_others=2, of_training=1, as_given=2, as_one=0)  # b is one with a
    shared = np.concatenate([images[:1], images[45:46], images[45:46]])  # of TRAIN, and who is one with that one
    found = sets_of(tmp_path, train, made, store_of(shared, tmp_path, "shared", ["a", "a", "b"]))
    assert (found.calibration, found.left_out.same_pixels, found.merged) == (None, 1, 1)


def test_of_few_training_patients_nobody_can_be_learned_and_the_reading_says_so(tmp_path) -> None:
    images = blobs(40)
    train, made = store_of(images[:20], tmp_path, "t", range(20)), store_of(images[20:24], tmp_path, "m")
    given = np.concatenate([images[24:], pixel_changed(images[24:])])
    found = sets_of(tmp_path, train, made, store_of(given, tmp_path, "new", [f"p{i:02}" for i in range(32)]))
    assert (found.alike.counts.as_given, found.alike.counts.as_one) == (32, 32)
    assert any(note.startswith("Look-alikes could not be looked for: 20 people are too few") for note in found.notes)


def test_the_promise_is_the_more_cautious_of_both_readings(tmp_path) -> None:
    """Sixteen people under two names each: enough as given, not as one person each; with more of them, both count."""
    images = blobs(130)
    train, made = store_of(images[80:120], tmp_path, "t", range(40)), store_of(images[10:14], tmp_path, "m")
    options = filter_options({"detector": "pixels", "miss_rate": 0.1, "confidence": 0.9})
    blur = [Family("blur", (1.0,))]
    for n, kept in ((16, False), (40, True)):
        people = images[20 : 20 + n]
        store = store_of(
            np.concatenate([people, pixel_changed(people)]), tmp_path, f"n{n}", [f"c{i}" for i in range(2 * n)]
        )
        sets = sets_of(tmp_path, train, made, store)
        (counted,) = counted_guarantees(sets, blur, 1, options)
        assert (counted.n_identities, counted.needed, counted.kept) == (n, 22, kept)
        assert any("look like another one" in told for told in excluded_words(sets.exclusions, Terms("patients")))
    (opened,) = open_screening(open_detectors(options), sets, options, no_progress)
    (found,) = calibrate([opened], sets, blur, 1, options, no_progress)
    assert found.readings.given.n_identities == 80
    assert found.guarantee.threshold == min(found.readings.given.threshold, found.readings.merged.threshold)
    assert guaranteed_thresholds([found], 1) == [found.guarantee.threshold]


def test_a_detector_that_cannot_be_asked_is_told(tmp_path) -> None:
    train, new, made = (store_of(digits()[i : i + 20], tmp_path, name) for i, name in ((0, "t"), (20, "n"), (40, "m")))
    blind = knowing([], [], alike=False, given=False)
    assert sets_of(tmp_path, train, made, new, [blind]).unseen == (blind.name,)
    assert sets_of(tmp_path, train, made, new, [blind], calibration_unseen=True).unseen == ()
    assert sets_of(tmp_path, train, made, new, [knowing([], [], given=False)]).unseen == ()
    assert sets_of(tmp_path, train, made, train).calibration is None


def test_pairs_are_one_of_each_identity_and_drawn_by_the_seed(tmp_path) -> None:
    groups = [f"p{i // 3}" for i in range(30)] + [f"single{i}" for i in range(7)]
    store = store_of(np.repeat(digits()[:37], 2, axis=1).repeat(2, axis=2), tmp_path, "new", groups)
    same = Family(REIDENTIFICATION)
    counted = [len(identities(*asked)) for asked in ((same, store), (Family("blur", (1.0,)), store), (same, None))]
    assert counted == [10, 17, 0]
    pairs = draw_pairs(same, store, 0)
    names = np.array(groups)
    assert (names[pairs.first] == names[pairs.second]).all()
    assert (pairs.first != pairs.second).all()
    assert len(set(names[pairs.first])) == len(pairs) == 10
    for name, strengths in FAMILIES.items():
        found, again, other = (draw_pairs(Family(name, strengths), store, seed) for seed in (1, 1, 2))
        assert sorted(names[found.first]) == sorted(set(groups))
        assert set(found.strength) <= set(strengths)
        assert len(set(found.strength)) > 1
        assert found.copies is not None
        assert again.copies is not None
        np.testing.assert_array_equal(found.copies.images, again.copies.images)
        assert not np.array_equal(found.first, other.first)


def test_flipped_and_cropped_copies_are_those_of_the_audit(tmp_path) -> None:
    images = blobs(12)
    store = store_of(images, tmp_path, "new", [f"p{i // 2}" for i in range(12)])
    for name in PLANTED:
        found, again = (draw_pairs(Family(name), store, 3) for _ in range(2))
        assert len(identities(found.family, store)) == len(found) == 6
        assert found.copies is not None
        assert again.copies is not None
        np.testing.assert_array_equal(found.copies.images, again.copies.images)
        for row, copy in zip(found.first, found.copies.images, strict=True):
            assert not np.array_equal(copy, images[row])
            if name == "flipped":
                assert any(np.array_equal(copy, np.flip(images[row], axis)) for axis in (0, 1))
    assert parse_families(("flipped",))[0].words == "flipped (left to right or top to bottom)"
    assert not_promised(parse_families(("copies", *PLANTED))) == ["pasted"]


def test_families_by_name() -> None:
    assert [f.name for f in parse_families(("re-identification", "copies"))] == [REIDENTIFICATION, *FAMILIES]
    assert parse_families(("jpeg:40",))[0].strengths == (95.0, 70.0, 40.0)
    assert parse_families(("noise:0.1",))[0].words == "noise (0.01, 0.1)"
    assert parse_families(("re-identification",))[0].words == "re-identification (another image of the person)"
    with pytest.raises(InputError, match="twice"):
        parse_families(("copies", "blur"))
    with pytest.raises(InputError, match="unknown family"):
        parse_families(("copies:3",))


def test_settings_that_contradict_each_other_are_refused() -> None:
    for settings, words in (
        ({"calibration": "a", "calibration_split": "test"}, "both name the same part"),
        ({"train_split": "train"}, "goes with calibration_split"),
        ({"calibration_split": "train"}, "name two parts"),
        ({"threshold": "much"}, "give a score"),
        ({"threshold": "nan"}, "give a score"),
        ({"sample": 10}, "sample draws"),
        ({"miss_rate": 1.0}, "between 0 and 1"),
        ({"missrate": 0.1}, "Did you mean 'miss_rate'"),
        ({"detector": ("pixels", "pixels")}, "twice"),
    ):
        with pytest.raises(InputError, match=words):
            filter_options({"detector": "pixels"} | settings)
