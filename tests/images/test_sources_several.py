"""Several data sets as one source: who stays whom, where the files are, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from memorisk.images.manifest import Manifest, leaking_groups
from memorisk.images.options import ImageOptions
from memorisk.images.sources.places import several_sources
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError
from tests.commands import answer
from tests.images.official_trees import chest, mnist, notes_of, pictures, rows_of
from tests.images.official_trees_pairs import celeba, ct_rate, imagenet_lt, nih_lt


def _pixels(manifest: Manifest, folder: Path) -> dict[str, str]:
    store = build_store(manifest, ImageOptions(size=4, store=folder))
    return dict(zip(store.manifest.images, store.pixel_hashes, strict=True))


def test_people_of_two_data_sets_stay_apart(tmp_path: Path) -> None:
    """Patient 1 of two hospitals: two groups; all else as in each source alone, pixels included."""
    for name in ("north", "south"):
        pictures(tmp_path / name / "a", *(f"{k}_{name}.png" for k in (1, 1, 2)))
    options = ImageOptions(group_from=r"^(\d+)_")
    parts = {name: load_manifest(tmp_path / name, options) for name in ("north", "south")}
    both = load_manifest(f"{tmp_path / 'north'},{tmp_path / 'south'}", options)
    assert both.name == "north+south"
    assert both.images.tolist() == [f"{name}/{image}" for name, part in parts.items() for image in part.images]
    assert set(both.groups) == {"north/1", "north/2", "south/1", "south/2"}
    assert both.table["dataset"].tolist() == ["north"] * 2 + ["south"] * 2
    assert both.table["path"].tolist() == [f"{n}/{path}" for n, part in parts.items() for path in part.table["path"]]
    assert "one id in two sources is two people" in both.notes[0]
    alone = {f"{n}/{i}": h for n, part in parts.items() for i, h in _pixels(part, tmp_path / "cache").items()}
    assert _pixels(both, tmp_path / "cache") == alone


def test_published_sets_arrays_volumes_and_built_in_images_together(tmp_path: Path) -> None:
    """Members and frames are kept where a source has them, and are empty elsewhere."""
    pytest.importorskip("nibabel")
    sources = [f"celeba:{celeba(tmp_path / 'c')}", f"imagenet-lt:{imagenet_lt(tmp_path / 'deep/i')}"]
    sources += [f"mnist:{mnist(tmp_path / 'm')}", f"ct-rate:{ct_rate(tmp_path / 'ct')}", "digits"]
    both = load_manifest(", ".join(sources))
    parts = [load_manifest(source) for source in sources]
    assert both.n == sum(part.n for part in parts)
    assert leaking_groups(both) == {}
    assert set(both.splits.tolist()) == {"train", "val", "test", ""}  # type: ignore[union-attr]
    assert [n for part in parts for n in [part.name] * part.n] == both.table["dataset"].tolist()
    assert "celeba: Label: " in notes_of(both)
    sample = both.subset(np.r_[0:3, 5:8, 9:12, 17:20, both.n - 3 : both.n])
    found = _pixels(sample, tmp_path / "cache")
    for part in parts:
        own = [i for i, name in enumerate(part.images) if f"{part.name}/{name}" in found]
        assert len(own) == 3
        for image, value in _pixels(part.subset(own), tmp_path / "cache").items():
            assert found[f"{part.name}/{image}"] == value


def test_a_table_that_names_its_data_sets(tmp_path: Path) -> None:
    """Its own names go before the ids; a row without one has the table's."""
    pictures(tmp_path / "a", "1.png", "2.png", "3.png")
    (tmp_path / "mine.csv").write_text("path,patient,dataset\na/1.png,p,x\na/2.png,p,y\na/3.png,q,\n")
    pictures(tmp_path / "other/k", "1.png", "2.png")
    both = load_manifest(f"{tmp_path / 'mine.csv'},{tmp_path / 'other'}")
    assert rows_of(both, "group", "dataset")[:3] == [("x/p", "x"), ("y/p", "y"), ("mine/q", "mine")]
    alone = load_manifest(tmp_path / "mine.csv")
    assert alone.groups.tolist() == ["p", "p", "q"], "within one table an id is one person, which is said"
    assert "1 groups occur in several data sets and are taken as one person each (p)" in notes_of(alone)
    assert not load_manifest(tmp_path / "other").groups_given
    assert both.groups_given


def test_a_sample_is_drawn_from_all(tmp_path: Path) -> None:
    for name in ("north", "south"):
        pictures(tmp_path / name / name, *(f"{k}.png" for k in range(10)))
    both = load_manifest(f"{tmp_path / 'north'},{tmp_path / 'south'}", ImageOptions(sample=8))
    assert both.table["dataset"].tolist() == ["north"] * 4 + ["south"] * 4


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures(tmp_path / "one/set/k", "1.png", "2.png")
    pictures(tmp_path / "two/set/k", "1.png", "2.png")
    same = f"chestxray14:{chest(tmp_path / 'c')},nih-cxr-lt:{nih_lt(tmp_path / 'n')}"
    for source, said in (
        (f"{tmp_path / 'one/set'},{tmp_path / 'two/set'}", "two of the sources hold a data set called set; give each"),
        (same, "chestxray14 and nih-cxr-lt are images of the same patients"),
        (f"{tmp_path / 'one/set'},{tmp_path / 'absent'}", "absent: the file or folder does not exist"),
        (f"{tmp_path / 'one/set'},celebs:{tmp_path}", "unknown data set before the colon"),
        (f"{tmp_path / 'one/set'},", "the file or folder does not exist"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            load_manifest(source)
        assert "\n" not in str(caught.value)
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "one,two/k", "1.png")
    assert load_manifest("one,two").n == 1
    assert several_sources("a:b, c") == ["a:b", "c"]
    assert several_sources("a,,b") == ["a,,b"]


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"celeba:{celeba(tmp_path / 'c')},imagenet-lt:{imagenet_lt(tmp_path / 'i')}"
    code, out, err = answer(capsys, "images", "check", source)
    assert code in (0, 1), err
    assert "9 images" in out
