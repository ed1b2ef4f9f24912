"""Plants: each patient gives one copy before anyone gives two, nobody two of one kind; hidden anywhere, found again."""

from collections import Counter
from pathlib import Path

import numpy as np

from memorisk.audits.comparison.plants import draw_plants, insert_plants
from memorisk.images.alterations.plants import ALL_KINDS, PLANT_KINDS
from memorisk.images.pixels import hash_pixels
from tests.audits.synthetic.making import parts, store_of


def stores(tmp_path: Path, n_train: int = 120, groups=None):
    train, _, synthetic = parts(n_train=n_train, n_synthetic=30)
    return store_of(train, tmp_path, "train", groups=groups), store_of(synthetic, tmp_path, "set")


def test_every_patient_gives_one_copy_where_there_are_enough(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path, groups=[f"p{i // 2}" for i in range(120)])
    plants = draw_plants(train, synthetic, 8, seed=0)
    patients = train.manifest.groups[plants.source]
    assert Counter(plants.kind) == dict.fromkeys(PLANT_KINDS, 8)
    assert len(set(patients)) == plants.n == 56
    assert all((base >= 0) == (kind == "pasted") for base, kind in zip(plants.base, plants.kind, strict=True))
    for pixels, kind, source in zip(plants.pixels, plants.kind, plants.source, strict=True):
        assert np.array_equal(pixels, np.asarray(train.images[source])) == (kind == "exact")


def test_some_kinds_alone_are_drawn_each_from_its_own_stream(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path)
    whole, some = draw_plants(train, synthetic, 3, seed=0), draw_plants(train, synthetic, 3, 0, ("jpeg", "exact"))
    assert some.kind.tolist() == ["exact"] * 3 + ["jpeg"] * 3
    np.testing.assert_array_equal(some.pixels[:3], whole.pixels[:3])
    assert some.n == 6


def test_further_kinds_leave_the_required_ones_and_their_places_as_they_are(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path)
    kinds = ("jpeg", "exact")
    alone, both = draw_plants(train, synthetic, 4, 0, kinds), draw_plants(train, synthetic, 4, 0, kinds, further=2)
    assert (alone.n, alone.n_required, both.n_required) == (8, 8, 8)
    further = [kind for kind in ALL_KINDS if kind not in kinds and kind != "recoloured"]  # digits have no colours
    assert Counter(both.kind[~both.required]) == dict.fromkeys(further, 2)
    for name in ("pixels", "kind", "parameter", "source", "base"):
        np.testing.assert_array_equal(getattr(both, name)[:8], getattr(alone, name))
    assert all(
        (base >= 0) == (ALL_KINDS[kind].second == "synthetic") for base, kind in zip(both.base, both.kind, strict=True)
    )
    one, all_ = insert_plants(synthetic, alone, seed=0), insert_plants(synthetic, both, seed=0)
    np.testing.assert_array_equal(all_.of_set, one.of_set)
    np.testing.assert_array_equal(all_.of_plants[:8], one.of_plants)
    np.testing.assert_array_equal(all_.of_plants[8:], np.arange(38, 38 + both.n - 8))
    np.testing.assert_array_equal(np.asarray(all_.store.images)[all_.of_plants], both.pixels)


def test_a_further_kind_that_is_named_is_required_and_drawn_alike(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path)
    also, named = draw_plants(train, synthetic, 3, 0, (), further=3), draw_plants(train, synthetic, 3, 0, ("shifted",))
    assert named.required.all()
    assert named.kind.tolist() == ["shifted"] * 3
    assert not also.required.any()
    first = draw_plants(train, synthetic, 3, 0, ("shifted",), further=1)
    np.testing.assert_array_equal(first.pixels[:3], named.pixels)


def test_a_blend_is_of_two_patients(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path, 12, groups=["p1"] * 12)
    assert draw_plants(train, synthetic, 3, 0, ("blended",)).n == 0


def test_few_patients_give_several_copies_but_never_two_of_one_kind(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path, 24, groups=[f"p{i // 2}" for i in range(24)])
    plants = draw_plants(train, synthetic, 20, seed=0)
    patients = train.manifest.groups[plants.source].tolist()
    assert plants.per_kind == 20
    assert Counter(plants.kind) == dict.fromkeys(PLANT_KINDS, 12)
    assert len(set(zip(plants.kind, patients, strict=True))) == plants.n
    assert set(Counter(patients).values()) == {7}


def test_an_image_that_a_kind_leaves_as_it_is_is_passed_over(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path, 12)
    images = np.array(train.images)
    images[:4] = 9  # blank
    images[4:8] = images[4:8, ::-1]
    images[4:8] = np.maximum(images[4:8], images[4:8, ::-1])
    images[4:8] = np.maximum(images[4:8], images[4:8, :, ::-1])  # symmetric both ways
    plants = draw_plants(store_of(images, tmp_path, "train"), synthetic, 20, seed=0)
    assert Counter(plants.kind)["exact"] == 8
    assert Counter(plants.kind)["flipped"] == 4
    assert set(plants.source[plants.kind == "flipped"]) == {8, 9, 10, 11}


def test_the_seed_decides_patients_parameters_and_places(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path)
    first, again, other = (draw_plants(train, synthetic, 3, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.pixels, again.pixels)
    assert first.parameter.tolist() == again.parameter.tolist()
    assert first.source.tolist() != other.source.tolist()
    places = [insert_plants(synthetic, first, seed=s).of_plants.tolist() for s in (0, 0, 1)]
    assert places[0] == places[1] != places[2]


def test_hidden_images_are_found_again_and_have_no_names(tmp_path: Path) -> None:
    train, synthetic = stores(tmp_path)
    plants = draw_plants(train, synthetic, 3, seed=0)
    hidden = insert_plants(synthetic, plants, seed=0)
    images = np.asarray(hidden.store.images)
    assert len(images) == len(synthetic.images) + plants.n == len(hidden.store.manifest.table)
    np.testing.assert_array_equal(images[hidden.of_set], synthetic.images)
    np.testing.assert_array_equal(images[hidden.of_plants], plants.pixels)
    assert hidden.store.pixel_hashes.tolist() == [hash_pixels(image) for image in images]
    assert hidden.store.manifest.images.tolist() == [str(i) for i in range(len(images))]
    assert min(hidden.of_plants) < len(synthetic.images)
    assert sorted([*hidden.of_set, *hidden.of_plants]) == list(range(len(images)))
    alone = insert_plants(synthetic, draw_plants(train, synthetic, 0, seed=0), seed=0)
    np.testing.assert_array_equal(np.asarray(alone.store.images), synthetic.images)
