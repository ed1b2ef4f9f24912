"""What features are computed by, read from one string."""

from pathlib import Path

import numpy as np
import pytest

from memorisk.models.encoders.feature_sources import FeatureSource, is_feature_file, parse_source
from memorisk.runs.errors import InputError


def fields(found: FeatureSource) -> tuple[object, ...]:
    return found.kind, found.name, found.weights, found.side, found.components


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("w.pth", "w.npz", "fit.npz", "a@b.npy", "f.parquet"):
        Path(name).touch()
    Path("hub@home").mkdir()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("resnet50@w.pth", ("network", "resnet50", "w.pth", None, None)),
        ("timm:resnet10t@none", ("network", "timm:resnet10t", "none", None, None)),
        ("timm:resnet50@default", ("network", "timm:resnet50", "default", None, None)),
        ("resnet50@a1_in1k", ("network", "resnet50", "a1_in1k", None, None)),
        ("squeezenet1_1_caffe@w.npz", ("network", "squeezenet1_1_caffe", "w.npz", None, None)),
        ("medsam@./w.pth", ("network", "medsam", "./w.pth", None, None)),
        ("biomedclip@w.pth", ("network", "biomedclip", "w.pth", None, None)),
        ("transformers:hub@home", ("transformers", "hub@home", None, None, None)),
        ("transformers:hub@home@none", ("transformers", "hub@home", "none", None, None)),
        (
            "transformers:facebook/dinov2-small@default",
            ("transformers", "facebook/dinov2-small", "default", None, None),
        ),
        ("pixels", ("pixels", "pixels", None, None, None)),
        ("pixels:32", ("pixels", "pixels", None, 32, None)),
        ("pca:16", ("pca", "pca", None, None, 16)),
        ("pca:16:8", ("pca", "pca", None, 8, 16)),
        ("pca:16@fit.npz", ("pca", "pca", "fit.npz", None, 16)),
        ("a@b.npy", ("saved", "a@b.npy", None, None, None)),
        ("f.parquet", ("saved", "f.parquet", None, None, None)),
    ],
)
def test_what_is_read(text: str, expected: tuple[object, ...]) -> None:
    assert fields(parse_source(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet51@none", "unknown features 'resnet51'. Did you mean 'resnet51q'"),
        ("pixel", "unknown features 'pixel'. Did you mean 'pixels'"),
        ("tim:resnet50@none", "unknown kind of features 'tim'. Did you mean 'timm'"),
        ("timm:resnet51@none", "unknown model 'timm:resnet51'. Did you mean"),
        ("resnet50@a1_in2k", "unknown weights of resnet50 'a1_in2k'. Did you mean 'a1_in1k'"),
        ("resnet50", "resnet50@FILE, resnet50@default to download them, or resnet50@none for random ones"),
        ("resnet50@", "need its pre-trained weights"),
        ("resnet50@gone.pth", "weights file gone.pth for resnet50 does not exist"),
        ("medsam@default", "no weights of medsam are published"),
        ("@none", "name no network"),
        ("timm:@none", "name no network"),
        ("", "name no network"),
        ("pixels:0", "not of the form pixels or pixels:SIDE"),
        ("pixels:4:4", "not of the form pixels or pixels:SIDE"),
        ("pixels@w.pth", "pixels have no weights"),
        ("pca", "not of the form pca:K or pca:K:SIDE"),
        ("pca:x", "not of the form pca:K or pca:K:SIDE"),
        ("pca:²", "not of the form pca:K or pca:K:SIDE"),
        ("pca:4@gone.npz", "file gone.npz of a fitted PCA does not exist"),
        ("gone.npy", "feature file gone.npy does not exist"),
        ("transformers:", "needs a folder"),
        (
            "transformers:facebook/dinov2-small",
            "folder facebook/dinov2-small does not exist; .*@default looks for this name",
        ),
        ("transformers:gone@none", "folder gone does not exist"),
        ("transformers:hub@home@default", "is a folder, which is not downloaded"),
        ("transformers:x@w.pth", "holds its own weights"),
        ("resnet50\n@none", r"unknown features 'resnet50\\\\n'"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        parse_source(text)
    assert str(error.value).isprintable()


def test_what_a_report_may_show(tmp_path: Path) -> None:
    """No folder: its name may be a person's."""
    (tmp_path / "jane_doe").mkdir()
    for name in ("w.pth", "f.npy"):
        (tmp_path / "jane_doe" / name).touch()
    assert parse_source(f"resnet50@{tmp_path}/jane_doe/w.pth").shown == "resnet50@w.pth"
    assert parse_source(tmp_path / "jane_doe" / "f.npy").shown == "f.npy"
    assert parse_source(f"transformers:{tmp_path}/jane_doe").shown == "transformers:jane_doe"
    assert parse_source(f"transformers:{tmp_path}/jane_doe@none").shown == "transformers:jane_doe@none"
    assert parse_source("transformers:a/b@default").shown == "transformers:a/b@default"
    assert parse_source("pca:3:8@fit.npz").shown == "pca:3:8@fit.npz"


def test_a_file_of_features_is_told_by_its_suffix() -> None:
    assert is_feature_file("A.NPZ")
    assert not is_feature_file("resnet50")
    assert np.all([is_feature_file(f"x{end}") for end in (".npy", ".parquet")])
