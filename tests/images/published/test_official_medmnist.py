"""MedMNIST by name."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.options import ImageOptions
from memorisk.images.published.medmnist import MEDMNIST_2D, MEDMNIST_3D
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.making import write


def _medmnist(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(names):
        images, labels = np.full((4, 2, 2), k, np.uint8), np.arange(4).reshape(-1, 1) % 2
        arrays = {f"{s}_{n}": v for s in ("train", "val", "test") for n, v in (("images", images), ("labels", labels))}
        np.savez(folder / f"{name}.npz", **arrays)


def test_medmnist_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MEDMNIST_ROOT", raising=False)
    with pytest.raises(InputError, match=r"no file dermamnist\.npz in .*/\.medmnist; get it from medmnist\.com"):
        load_manifest("medmnist:dermamnist")
    _medmnist(tmp_path / ".medmnist", "dermamnist_224")
    manifest = load_manifest("medmnist:dermamnist")
    assert (manifest.n, manifest.name) == (12, "dermamnist_224")
    assert manifest.splits is not None
    assert Counter(manifest.splits) == {"train": 4, "val": 4, "test": 4}
    assert "no patients are published" in manifest.notes[-1]
    _medmnist(tmp_path / ".medmnist", "dermamnist_64")
    with pytest.raises(
        InputError, match=r"dermamnist_64\.npz, dermamnist_224\.npz are in .*; name one, as medmnist:derma"
    ):
        load_manifest("medmnist:dermamnist")
    _medmnist(tmp_path / ".medmnist", "dermamnist")
    manifest = load_manifest("medmnist:DermaMNIST")
    assert manifest.name == "dermamnist"
    assert (
        manifest.notes[-1] == "Other sizes are there, too (dermamnist_64.npz, dermamnist_224.npz): name one to read it."
    )
    assert load_manifest("medmnist:dermamnist_64").name == "dermamnist_64"
    monkeypatch.setenv("MEDMNIST_ROOT", str(tmp_path / "root"))
    _medmnist(tmp_path / "root", "dermamnist_128")
    assert load_manifest("medmnist:dermamnist").name == "dermamnist_128", "the first place that has it"
    _medmnist(tmp_path / "given", "bloodmnist")
    assert load_manifest(f"medmnist:bloodmnist@{tmp_path / 'given'}").n == 12
    with pytest.raises(InputError, match=r"no file dermamnist\.npz in .*/given; there are bloodmnist\.npz; get it"):
        load_manifest(f"medmnist:dermamnist@{tmp_path / 'given'}")


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("dermanist", r"unknown MedMNIST data set 'dermanist'\. Did you mean 'dermamnist'\?"),
        ("nodulemnist3d", "nodulemnist3d holds volumes, and images are two-dimensional here; choose among pathmnist"),
        ("dermamnist_256", r"unknown size of dermamnist: '256'.* Known: 64, 128, 224"),
        ("dermamnist@", "no folder after '@'; give medmnist:dermamnist@FOLDER"),
    ],
)
def test_medmnist_names_that_are_refused(rest: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_manifest(f"medmnist:{rest}")
    assert (len(set(MEDMNIST_2D)), len(set(MEDMNIST_3D))) == (12, 6)


def test_medmnist_takes_groups_from_a_table(tmp_path: Path) -> None:
    """Patients that are known from elsewhere can be joined, as for any file of arrays."""
    _medmnist(tmp_path, "bloodmnist")
    rows = [f"{s}/{k},l{k},p{k // 2}" for s in ("train", "val", "test") for k in range(4)]
    write(tmp_path / "who.csv", "\n".join(["image,label,patient", *rows, ""]).encode())
    options = ImageOptions(labels_csv=tmp_path / "who.csv")
    manifest = load_manifest(f"medmnist:bloodmnist@{tmp_path}", options)
    assert set(manifest.groups) == {"p0", "p1"}
