"""Nobody is on two sides, and the three sets are decoded alike; everything else is refused or said."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.comparison.sets import Sets, decode_sets, read_manifests
from memorisk.audits.synthetic.options import synthetic_options
from memorisk.runs.errors import InputError
from memorisk.runs.workload import no_progress
from tests.audits.synthetic.making import parts, store_of


def read(train, synthetic, held=None, **settings) -> Sets:
    options = synthetic_options(settings)
    return decode_sets(read_manifests(train, synthetic, held, options, no_progress), no_progress)


def folder_of(root: Path, images: Sequence[np.ndarray] | np.ndarray, names: list[str]) -> Path:
    root.mkdir()
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(root / name)
    return root


def test_patients_on_both_sides_are_refused_by_name(tmp_path: Path) -> None:
    train, held, synthetic = parts(n_train=6, n_held=6, n_synthetic=4)
    ours = store_of(train, tmp_path, "train", groups=["a", "a", "b", "b", "c", "c"])
    theirs = store_of(held, tmp_path, "held", groups=["d", "d", "c", "e", "b", "e"])
    with pytest.raises(InputError, match=r"2 patients are in training and held out \(b, c\): split by patient"):
        read(ours, store_of(synthetic, tmp_path), theirs)


def test_names_without_patients_mean_nothing_and_that_is_said(tmp_path: Path) -> None:
    train, held, synthetic = parts(n_train=4, n_held=3, n_synthetic=4)
    names = ["0.png", "1.png", "2.png", "3.png"]
    sources = [
        folder_of(tmp_path / "train", train, names),
        folder_of(tmp_path / "set", synthetic, names),
        folder_of(tmp_path / "held", held, names[:3]),
    ]
    sets = read(*sources)
    assert sets.groups_given is False
    assert any("3 names of images occur in training and held out" in note for note in sets.notes)
    with pytest.raises(InputError, match="3 patients are in training and held out"):
        read(*sources, group_from="(.+)[.]")


def test_a_held_out_patient_with_a_training_image_is_left_out(tmp_path: Path) -> None:
    train, held, synthetic = parts(n_train=6, n_held=6, n_synthetic=4)
    held[1], held[5] = train[2], 0
    train[5] = 0  # a blank image is in both and says nothing
    ours = store_of(train, tmp_path, "train", groups=list("abcdef"))
    theirs = store_of(held, tmp_path, "held", groups=["g", "h", "h", "i", "j", "k"])
    sets = read(ours, store_of(synthetic, tmp_path), theirs)
    assert sets.held is not None
    assert (sets.shared_images, sets.shared_patients) == (1, 1)
    assert sets.held.manifest.groups.tolist() == ["g", "i", "j", "k"]
    np.testing.assert_array_equal(np.asarray(sets.held.images), held[[0, 3, 4, 5]])
    assert sets.shared_hashes == {ours.pixel_hashes[2]}
    with pytest.raises(InputError, match=r"every held-out patient has an image that is a training image \(3\)"):
        read(ours, store_of(synthetic, tmp_path), store_of(train[:3], tmp_path, "all", groups=["x", "y", "z"]))


def test_parts_of_one_manifest_by_its_split(tmp_path: Path) -> None:
    train, held, synthetic = parts(n_train=6, n_held=4, n_synthetic=4)
    folder_of(tmp_path / "images", np.concatenate([train, held]), [f"{i}.png" for i in range(10)])
    table = pd.DataFrame({"image": [f"{i}.png" for i in range(10)], "patient": list("aabbccddee")})
    table["split"] = ["train"] * 5 + ["val"] + ["test"] * 4
    table.to_csv(tmp_path / "images" / "all.csv", index=False)
    source, made = tmp_path / "images" / "all.csv", store_of(synthetic, tmp_path)
    with pytest.raises(InputError, match="has the splits test, train, val; there is no 'holdout' in it"):
        read(source, made, held_out_split="holdout")
    whole = "TRAIN has splits (test, train, val): all of its images are taken for training images; --held-out-split"
    assert any(note.startswith(whole) for note in read(source, made).notes)
    sets = read(source, made, held_out_split="test")
    assert sets.held is not None
    assert (len(sets.train.images), len(sets.held.images)) == (5, 4)
    assert sets.others is None  # where only figures are computed
    assert (
        "TRAIN holds 1 image in further parts (val: 1): no generated image is compared with them here; memorisk audit "
        "synthetic compares their pixels."
    ) in sets.notes
    options = synthetic_options({"held_out_split": "test"})
    sets = decode_sets(read_manifests(source, made, None, options, no_progress, compares_others=True), no_progress)
    assert sets.others is not None
    np.testing.assert_array_equal(np.asarray(sets.others.images), train[5:])
    assert sets.others.manifest.groups.tolist() == ["c"]
    assert any("(val: 1): only their pixels are compared with generated images" in note for note in sets.notes)
    with pytest.raises(InputError, match=r"1 patient is in training and held out \(c\)"):
        read(source, made, held_out_split="val")
    with pytest.raises(InputError, match="has no given split"):
        read(store_of(train, tmp_path, "train"), made, held_out_split="test")


def test_further_parts_of_another_size_are_named_with_the_way_out(tmp_path: Path) -> None:
    train, held, synthetic = parts(n_train=4, n_held=4, n_synthetic=4)
    names = [f"{i}.png" for i in range(10)]
    twice = np.kron(train[:2], np.ones((1, 2, 2, 1), np.uint8))
    folder_of(tmp_path / "images", [*train, *held, *twice], names)
    table = pd.DataFrame({"image": names, "patient": list("abcdefghij")})
    table["split"] = ["train"] * 4 + ["test"] * 4 + ["val", "extra"]
    table.to_csv(tmp_path / "images" / "all.csv", index=False)
    made = folder_of(tmp_path / "made", synthetic, names[:4])

    def sets(**settings: object) -> Sets:
        options = synthetic_options({"held_out_split": "test", **settings})
        source = tmp_path / "images" / "all.csv"
        return decode_sets(read_manifests(source, made, None, options, no_progress, compares_others=True), no_progress)

    with pytest.raises(InputError) as error:
        sets()
    n = train.shape[1]
    assert f"further parts extra, val: {2 * n} x {2 * n} x 1 uint8), and pixels are compared in one" in str(error.value)
    assert str(error.value).endswith("--size, and --channels or --depth, or TRAIN without its further parts extra, val")
    others = sets(size=n).others
    assert others is not None
    assert others.images.shape == (2, n, n, 1)


def test_grey_and_colour_meet_in_three_channels_and_sizes_must_agree(tmp_path: Path) -> None:
    train, held, synthetic = parts(n_train=4, n_held=3, n_synthetic=4)
    coloured = np.repeat(synthetic, 3, axis=3)
    coloured[:, 0, 0, 0] ^= 255
    coloured[0] = np.repeat(train[1], 3, axis=2)
    names = [f"{i}.png" for i in range(4)]
    ours = folder_of(tmp_path / "train", train, names)
    sets = read(ours, folder_of(tmp_path / "set", coloured, names), folder_of(tmp_path / "held", held, names[:3]))
    assert [s.images.shape[3] for s in (sets.train, sets.synthetic, sets.held) if s is not None] == [3, 3, 3]
    assert sets.synthetic.pixel_hashes[0] == sets.train.pixel_hashes[1]  # a grey copy stays one in colour
    large = folder_of(tmp_path / "large", np.kron(synthetic, np.ones((1, 2, 2, 1), np.uint8)), names)
    with pytest.raises(InputError, match=r"training: 8 x 8 x 1 uint8; synthetic: 16 x 16 x 1 uint8.*give --size"):
        read(ours, large)
    assert read(ours, large, size=8).synthetic.images.shape[1:] == (8, 8, 1)


def test_columns_of_the_real_images_are_not_asked_of_the_synthetic_ones(tmp_path: Path) -> None:
    train, _, synthetic = parts(n_train=4, n_held=3, n_synthetic=4)
    ours = folder_of(tmp_path / "train", train, [f"p{i // 2}_{i}.png" for i in range(4)])
    sets = read(ours, folder_of(tmp_path / "set", synthetic, ["a.png", "b.png", "c.png", "d.png"]),
                group_from=r"(p\d)_")  # fmt: skip
    assert sets.train.manifest.groups.tolist() == ["p0", "p0", "p1", "p1"]
    assert sets.synthetic.manifest.groups.tolist() == sets.synthetic.manifest.images.tolist()


def test_what_cannot_be_audited(tmp_path: Path) -> None:
    train, _, synthetic = parts(n_train=4, n_held=3, n_synthetic=4)
    made = store_of(synthetic, tmp_path)
    with pytest.raises(InputError, match="one training patient"):
        read(store_of(train, tmp_path, "train", groups=["a"] * 4), made)
    for settings, words in (
        ({"sample": 5}, "several are compared here"),
        ({"held_out": "x", "held_out_split": "test"}, "give one of them"),
        ({"held_out_split": "train"}, "name two parts"),
        ({"recall": 1.0}, "between 0 and 1"),
        ({"plants": -1}, "at least 0"),
        ({"plants": 1.5}, "a whole number"),
        ({"gallery": "no"}, "true or false"),
        ({"recall": 0.0}, "between 0 and 1"),
        ({"held_ot": "x"}, "Did you mean 'held_out'"),
        ({"fail_on": "newer"}, "Did you mean 'never'"),
    ):
        with pytest.raises(InputError, match=words):
            synthetic_options(settings)
