"""Data sets that are Python objects: of torchvision, of the ``datasets`` library, of anybody's class."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

import memorisk
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.set_check.text import render_text
from memorisk.images.sources.datasets import is_dataset, save_dataset
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.errors import InputError


class Items(Dataset):
    """A list of items, as a user's own class has them."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        return self.items[row]


def pixels(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape or (6, 5, 3), dtype=np.uint8)


def folder(root: Path, n: int = 6) -> Path:
    for i in range(n):
        path = root / ("mel" if i % 2 else "nv") / f"p{i // 2}_{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(i)).save(path)
    return root


def stored(source: Path, tmp_path: Path, **settings: Any) -> ImageStore:
    options = ImageOptions(store=tmp_path / "cache", **settings)
    return build_store(load_manifest(source, options), options)


def test_torchvisions_folder_is_the_folder(tmp_path: Path) -> None:
    vision = pytest.importorskip("torchvision")
    root = folder(tmp_path / "skin")
    Image.fromarray(pixels(9, 6, 5, 4), "RGBA").save(
        root / "nv" / "p9_9.png"
    )  # alpha: not what torchvision makes of it
    shaken = vision.transforms.Compose([vision.transforms.RandomHorizontalFlip(), vision.transforms.ToTensor()])
    dataset = vision.datasets.ImageFolder(root, transform=shaken)
    saved = save_dataset(dataset, store=tmp_path / "cache")
    assert saved == save_dataset(dataset, store=tmp_path / "cache")  # written once
    assert (saved.name, saved.stat().st_mode & 0o77) == ("ImageFolder", 0)
    assert dataset.transform is shaken
    assert stored(saved, tmp_path).data_hash == stored(root, tmp_path).data_hash
    manifest = load_manifest(saved)
    assert manifest.notes[0] == "Written from ImageFolder, a data set in Python, without its transform."
    grouped = stored(saved, tmp_path, group_from="^(p[0-9]+)_")
    assert grouped.data_hash == stored(root, tmp_path, group_from="^(p[0-9]+)_").data_hash


def test_real_images_are_the_same_by_either_way(tmp_path: Path, shared_data: Path) -> None:
    vision = pytest.importorskip("torchvision")
    root = shared_data / "busi_ultrasound" / "Dataset_BUSI_with_GT"
    whole = vision.datasets.ImageFolder(root)
    rows = list(range(0, len(whole), 60))
    part = Subset(whole, rows)
    patients = [f"p{row // 120}" for row in rows]
    store = stored(save_dataset(part, groups=patients, store=tmp_path / "cache"), tmp_path, size=64)
    plain = load_manifest(root)
    of_id = {image: row for row, image in enumerate(plain.images)}
    names = [Path(whole.samples[row][0]).relative_to(root).as_posix() for row in rows]
    options = ImageOptions(store=tmp_path / "cache", size=64)
    files = build_store(plain.subset([of_id[name] for name in names]), options)
    assert store.manifest.groups.tolist() == patients
    assert store.manifest.labels.tolist() == files.manifest.labels.tolist()
    assert store.manifest.images.tolist() == names
    assert store.pixel_hashes.tolist() == files.pixel_hashes.tolist()
    assert len(rows) > 10


def test_what_items_may_be(tmp_path: Path) -> None:
    colour, grey = pixels(0), pixels(1, 6, 5)
    deep = grey.astype(np.uint16) * 200
    tensor = torch.from_numpy(colour).permute(2, 0, 1)
    cases: list[tuple[Any, np.ndarray]] = [
        (Image.fromarray(colour), colour),
        (colour, colour),
        (np.moveaxis(colour, 2, 0), colour),
        (tensor, colour),
        (tensor.float() / 255, colour),
        (torch.from_numpy(grey)[None].double() / 255, grey[..., None]),
        (grey, grey[..., None]),
        (grey.astype(np.int64), grey[..., None]),
        (grey > 100, (grey > 100).astype(np.uint8)[..., None] * 255),
        (Image.fromarray(deep), deep[..., None]),
        (deep, deep[..., None]),
    ]
    for i, (item, wanted) in enumerate(cases):
        forms = (item, (item, 1), {"image": item, "label": 1})
        for j, given in [*enumerate(forms)][0 if i < 1 else 2 :]:
            place = tmp_path / f"{i}_{j}"
            depth = 16 if wanted.dtype == np.uint16 else 8
            options = ImageOptions(store=place, depth=depth)
            manifest = load_manifest(save_dataset(Items([given]), store=place), options)
            assert manifest.labels.tolist() == ["" if j == 0 else "1"]
            assert np.array_equal(build_store(manifest, options).images[0], wanted), (i, j)


def test_labels_groups_and_classes(tmp_path: Path) -> None:
    items = Items([(pixels(i), i % 2) for i in range(5)])
    items.classes = ["benign", "malignant"]  # type: ignore[attr-defined]
    named = load_manifest(save_dataset(Subset(items, [4, 3, 1]), store=tmp_path))
    assert named.labels.tolist() == ["benign", "malignant", "malignant"]
    assert not named.groups_given
    grouped = save_dataset(items, groups=np.array([7, 7, 8, 8, 9]), labels=list("abcde"), store=tmp_path)
    manifest = load_manifest(grouped)
    assert manifest.groups.tolist() == ["7", "7", "8", "8", "9"]
    assert manifest.labels.tolist() == list("abcde")
    several = Items([(pixels(0), np.array([1, 0, 1])), (pixels(1), np.array([0, 0, 0])), (pixels(2), np.array([3]))])
    assert load_manifest(save_dataset(several, store=tmp_path)).labels.tolist() == ["0|2", "none", "3"]
    keyed = Items([{"image": pixels(i), "label": "x", "patient": f"p{i // 2}"} for i in range(4)])
    assert load_manifest(save_dataset(keyed, groups="patient", store=tmp_path)).groups.tolist() == [
        "p0",
        "p0",
        "p1",
        "p1",
    ]
    both = ConcatDataset([items, Items([(pixels(9), 0)])])
    assert load_manifest(save_dataset(both, store=tmp_path)).labels.tolist()[-1] == "benign"
    parts = load_manifest(save_dataset({"train": items, "val": Items([(pixels(9), 0)])}, store=tmp_path))
    assert parts.splits is not None
    assert parts.splits.tolist() == ["train"] * 5 + ["val"]
    assert load_manifest(save_dataset(TensorDataset(torch.zeros(3, 1, 4, 4), torch.arange(3)), store=tmp_path)).n == 3


def test_what_cannot_be_used(tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    class Restless(Items):
        def __getitem__(self, row: int) -> Any:
            return random.integers(0, 256, (4, 4), dtype=np.uint8), 0

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter([])

    class Broken(Items):
        def __getitem__(self, row: int) -> Any:
            raise OSError("the disk\nis gone")

    image = pixels(0)
    for dataset, what in [
        (Restless([0] * 3), "item 0 is another image when it is read again.*random"),
        (Stream(), "Stream is a stream"),
        (Broken([0]), "item 0 cannot be read .the disk.+is gone"),
        (Items([]), "no images"),
        (Items([(torch.randn(3, 4, 4), 0)]), "floats of images are from 0 to 1; leave out what normalises"),
        (Items([(torch.full((3, 4, 4), float("nan")), 0)]), "values from nan to nan"),
        (Items([(image.astype(int) * 1000, 0)]), "values from .* to .*, those of images are 0 to 255"),
        (Items([(image.astype(np.uint16) * 200, 0)]), "colour image of 16 bits"),
        (Items([(np.zeros((2, 3, 4, 5)), 0)]), r"array of shape \(2, 3, 4, 5\), no image"),
        (Items([("a.png", 0)]), "item 0 is .*, no image"),
        (Items([(image, {"boxes": 1})]), "the label of item 0 is .*give labels"),
        ({"a/b": Items([(image, 0)])}, "'a/b' is not a name of a split"),
    ]:
        with pytest.raises(InputError, match=what) as error:
            save_dataset(dataset, store=tmp_path)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="2 groups are given, for 1 images"):
        save_dataset(Items([(image, 0)]), groups=["a", "b"], store=tmp_path)
    with pytest.raises(InputError, match="item 0 has no patient"):
        save_dataset(Items([(image, 0)]), groups="patient", store=tmp_path)
    assert [*(tmp_path / "datasets").iterdir()] == []


def test_public_functions_take_them_as_sources(tmp_path: Path) -> None:
    items = Items([(pixels(i), i % 2) for i in range(4)])
    options = ImageOptions(store=tmp_path / "cache")
    manifest = memorisk.load_manifest(items, options)
    assert isinstance(manifest, Manifest)
    assert manifest.name == "Items"
    assert manifest.root is not None
    assert manifest.root.is_relative_to(tmp_path / "cache" / "datasets")
    assert memorisk.check_images(items, options).n == 4
    with pytest.raises(InputError, match=r"canar|too few|class"):
        memorisk.audit_classifier(items, out=tmp_path / "run", store=tmp_path / "cache")
    assert not (tmp_path / "run").exists()
    assert inspect.signature(memorisk.audit_classifier).parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
    assert not any(
        is_dataset(value) for value in ("digits", tmp_path, manifest, [1], {}, {"a": 1}, torch.nn.Sequential())
    )


def test_data_sets_of_the_library(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    root = folder(tmp_path / "skin")
    paths = sorted(str(path) for path in root.rglob("*.png"))
    features = datasets.Features(
        image=datasets.Image(), label=datasets.ClassLabel(names=["mel", "nv"]), patient_id=datasets.Value("string")
    )
    columns = {
        "image": paths,
        "label": [int("nv" in path) for path in paths],
        "patient_id": [Path(path).name.partition("_")[0] for path in paths],
    }
    made = datasets.Dataset.from_dict(columns, features=features).with_transform(lambda rows: 1 / 0)
    store = stored(save_dataset(made.select([5, 0, 2]), store=tmp_path / "cache"), tmp_path)
    plain = stored(root, tmp_path, group_from="^(p[0-9]+)_")
    of_file = dict(zip(plain.manifest.images, plain.pixel_hashes, strict=True))
    names = [Path(paths[i]).relative_to(root).as_posix() for i in (5, 0, 2)]
    assert store.manifest.images.tolist() == [Path(name).name for name in names]
    assert store.pixel_hashes.tolist() == [of_file[name] for name in names]
    assert store.manifest.labels.tolist() == ["nv", "mel", "mel"]
    assert store.manifest.groups.tolist() == ["p2", "p0", "p2"]
    parts = memorisk.load_manifest(
        datasets.DatasetDict(train=made.select([0, 1]), test=made.select([2])), ImageOptions(store=tmp_path / "cache")
    )
    assert parts.splits is not None
    assert sorted(parts.splits.tolist()) == ["test", "train", "train"]
    given = load_manifest(
        save_dataset(made, groups=list("aabbcc"), labels=list("uvwxyz"), store=tmp_path / "cache"),
        ImageOptions(group_column="group"),
    )
    assert given.groups.tolist() == list("aabbcc")
    assert given.labels.tolist() == list("uvwxyz")
    with pytest.raises(InputError, match=r"Dataset: no column of images among (patient_id, label|label, patient_id)"):
        memorisk.check_images(made.with_format(None).remove_columns("image"), store=tmp_path / "cache")
    with pytest.raises(InputError, match="is a stream"):
        save_dataset(made.with_format(None).to_iterable_dataset(), store=tmp_path / "cache")
    away = datasets.Dataset.from_dict(
        {"image": ["https://example.org/a.png"]}, features=datasets.Features(image=datasets.Image())
    )
    with pytest.raises(InputError, match="not in a file of this machine"):
        save_dataset(away, store=tmp_path / "cache")


def test_whose_an_image_is_is_never_dropped(tmp_path: Path) -> None:
    deep = [pixels(i, 6, 5).astype(np.uint16) * 200 for i in range(6)]

    def items(**more: Any) -> Items:
        """Six images of three patients, with further keys."""
        return Items([{"image": deep[i], "label": "ab"[i % 2]} | {k: v(i) for k, v in more.items()} for i in range(6)])

    for name, value in (("patient_id", lambda i: i // 2), ("Subject ID", lambda i: torch.tensor(i // 2))):
        check = memorisk.check_images(items(**{name: value}), ImageOptions(store=tmp_path, depth=16))
        assert check.groups["images"].tolist() == [2, 2, 2]
        assert f"group is {name}" in " ".join(check.notes)
    split = items(patient_id=lambda i: f"p{i // 3}", split=lambda i: "train" if i % 3 else "test", age=float)
    assert memorisk.check_images(split, ImageOptions(store=tmp_path)).problems["groups across splits"] == 2
    chosen = ImageOptions(store=tmp_path, group_column="who")
    assert memorisk.load_manifest(items(who=lambda i: i % 3, patient_id=str), chosen).groups.tolist() == list("012012")
    named = save_dataset(items(who=lambda i: i % 3, group=lambda i: "case"), groups="who", store=tmp_path)
    assert load_manifest(named).groups.tolist() == list("012012")
    with pytest.raises(InputError, match=r"item 0: its patient_id is \['p0'\], no single value"):
        save_dataset(items(patient_id=lambda i: [f"p{i}"]), store=tmp_path)
    late = Items([{"image": pixels(i), **({"patient": "p"} if i > 70 else {})} for i in range(72)])
    with pytest.raises(InputError, match="item 71 has patient, which items before it lack"):
        save_dataset(late, store=tmp_path)
    unread = save_dataset(items(mask=lambda i: deep[i], classes=lambda i: ["a"]), store=tmp_path)
    assert "not read: mask, classes." in load_manifest(unread).notes[0]
    triples = save_dataset(Items([(pixels(i), i % 2, f"p{i // 2}") for i in range(4)]), store=tmp_path)
    assert "the last 1 of the 3 values of an item" in load_manifest(triples).notes[0]


def test_a_column_called_group_gives_way_to_the_one_that_is_named(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    columns = {"image": [{"bytes": None, "path": str(p)} for p in sorted(folder(tmp_path / "skin").rglob("*.png"))]}
    columns |= {"Group": list("ccctttt")[:6], "who": list("aabbcc"), "Label": list("uvwxyz")}
    made = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
    saved = load_manifest(save_dataset(made, groups="who", labels=list("ababab"), store=tmp_path / "cache"))
    assert saved.groups.tolist() == list("aabbcc")
    assert saved.labels.tolist() == list("ababab")


def test_a_folder_of_torchvision_with_items_of_its_own_is_asked_for_them(tmp_path: Path) -> None:
    vision = pytest.importorskip("torchvision")

    class Patients(vision.datasets.ImageFolder):
        def __getitem__(self, row: int) -> Any:
            return {"image": self.loader(self.samples[row][0]), "label": row % 2, "patient_id": f"p{row // 2}"}

    manifest = load_manifest(save_dataset(Patients(folder(tmp_path / "skin")), store=tmp_path / "cache"))
    assert manifest.groups.tolist() == ["p0", "p0", "p1", "p1", "p2", "p2"]


class Plain:
    """A class of nobody's kind, with a length and items by number."""

    def __init__(self, n: int = 4) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, row: int) -> Any:
        return {"image": pixels(row), "label": "ab"[row % 2], "who": f"p{row // 2}"}


def test_the_public_save_dataset_sees_the_object(tmp_path: Path) -> None:
    saved = memorisk.save_dataset(Plain(), groups=list("aabb"), store=tmp_path)
    assert load_manifest(saved).groups.tolist() == list("aabb")
    with pytest.raises(InputError, match="'d/classes' is a path, which is a source as it is"):
        memorisk.save_dataset("d/classes", store=tmp_path)
    with pytest.raises(InputError, match="is not a data set; give an object with len"):
        memorisk.save_dataset(None, store=tmp_path)


def test_a_plain_class_is_a_source_and_settings_are_arguments(tmp_path: Path) -> None:
    check = memorisk.check_images(Plain(), store=tmp_path, group_column="who")
    assert (check.name, check.groups["group"].tolist()) == ("Plain", ["p0", "p1"])
    assert not any("No group" in note for note in check.notes)
    assert "Name a key of its items with group_column" in " ".join(memorisk.check_images(Plain(), store=tmp_path).notes)
    assert memorisk.check_images({"train": Plain(), "test": Plain(2)}, store=tmp_path).splits["images"].tolist() == [
        2,
        4,
    ]
    with pytest.raises(InputError, match=r"unknown setting 'group_colum'.* Did you mean 'group_column'"):
        memorisk.check_images(Plain(), store=tmp_path, group_colum="who")
    for wrong, what in ((None, "are None"), ([1, 2, 3], "are a list"), (iter([]), "list_iterator"), (7, "type int")):
        with pytest.raises(InputError, match=what):
            memorisk.check_images(wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=what):
            memorisk.audit_classifier(wrong, out=tmp_path / "run")  # type: ignore[arg-type]
    assert not any(is_dataset(v, as_source=True) for v in ([1], np.ones(3), tmp_path, torch.nn.Sequential(), "digits"))


def test_a_cache_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "datasets").write_text("in the way")
    with pytest.raises(InputError, match=r"Plain cannot be written into .* \(File exists\): name another with --store"):
        memorisk.save_dataset(Plain(), store=tmp_path)


def test_which_row_of_a_data_set_cannot_be_read_is_said(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    whole = [path.read_bytes() for path in sorted(folder(tmp_path / "skin").rglob("*.png"))]
    rows = [{"bytes": data[:60] if i == 3 else data, "path": None} for i, data in enumerate(whole)]
    made = datasets.Dataset.from_dict({"image": rows}).cast_column("image", datasets.Image())
    check = memorisk.check_images(made, store=tmp_path / "cache")
    assert any(line.startswith("  data.parquet, image 3: ") for line in render_text(check))
    with pytest.raises(InputError, match=r"1 of 6 images cannot be read: data\.parquet, image 3 \("):
        stored(save_dataset(made, store=tmp_path / "cache"), tmp_path)
