"""The manifest: what it accepts, what it refuses in one line, and that any text survives a file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memorisk.images.identity import normal_id, normal_label, placeholders
from memorisk.images.manifest import Manifest, drop_labels, leaking_groups, refuse_leaking_splits, require_labels
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError, listed


def _manifest(**columns: list) -> Manifest:
    n = len(next(iter(columns.values())))
    table = pd.DataFrame({"image": [f"i{k}" for k in range(n)], "path": "p", "label": "l", "group": "g"})
    return Manifest(table=table.assign(**columns), root=Path("/data"), name="test")


def test_properties_and_subset() -> None:
    manifest = _manifest(label=["b", "a", "", "b"], group=list("xxyz"), split=["train", "test", "", "val"])
    manifest.validate()
    assert manifest.n == 4
    assert manifest.classes == ["a", "b"]
    assert manifest.labels.dtype == object
    assert manifest.labels.tolist() == ["b", "a", "", "b"]
    assert manifest.splits is not None
    assert manifest.splits.tolist() == ["train", "test", "", "val"]
    some = manifest.subset([3, 0])
    assert some.images.tolist() == ["i3", "i0"]
    assert some.table.index.tolist() == [0, 1]
    assert manifest.subset(manifest.labels == "b").images.tolist() == ["i0", "i3"]
    assert manifest.subset(np.zeros(4, bool)).n == 0
    assert manifest.file(1) == "/data/p"
    assert _manifest(label=["a"]).splits is None
    assert _manifest(path=["builtin:digits"]).file(0) == "builtin:digits"


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"image": ["a", "b", "a", "b", "c"]}, r"2 image ids occur more than once \(a, b\)"),
        ({"image": ["a", "", "c"]}, "row 2 has an empty image id"),
        ({"label": ["a", 3.0]}, "label of row 2 is 3.0, not text"),
        ({"group": ["a", None]}, "group of row 2 is .*, not text"),
        ({"image": ["a", "b\udcff"]}, r"image of row 2 \(b\\udcff\) is not UTF-8"),
        ({"image": []}, "no images"),
    ],
)
def test_refusals(columns: dict, what: str) -> None:
    n = len(next(iter(columns.values())))
    table = pd.DataFrame({"image": [f"i{k}" for k in range(n)], "path": "p", "label": "l", "group": "g"}, dtype=object)
    for name, values in columns.items():
        table[name] = pd.Series(values, dtype=object)
    with pytest.raises(InputError, match=what) as error:
        Manifest(table=table, root=None, name="te\nst").validate()
    assert str(error.value).isprintable()


def test_a_missing_column_is_named() -> None:
    manifest = _manifest(label=["a"])
    with pytest.raises(InputError, match="lacks the column group"):
        Manifest(table=manifest.table.drop(columns="group"), root=None, name="test").validate()


def test_labels_are_required_only_where_they_are_needed() -> None:
    require_labels(_manifest(label=["a", "b"]))
    with pytest.raises(
        InputError, match=r"2 of 3 images have no label \(i0, i2\); .*leave them out with drop_label ''"
    ):
        require_labels(_manifest(label=["", "b", ""]))
    require_labels(drop_labels(_manifest(label=["", "b", ""]), [""]))
    with pytest.raises(InputError, match=r"2 of 2 images have no label .*class folders.*labels_csv"):
        require_labels(_manifest(label=["", ""]))


def test_groups_across_splits_are_listed() -> None:
    leaking = _manifest(group=list("abacb"), split=["train", "train", "test", "test", ""])
    assert leaking_groups(leaking) == {"a": ("test", "train")}
    with pytest.raises(InputError, match=r"1 groups are in more than one given split \(a in test and train\)"):
        refuse_leaking_splits(leaking)
    refuse_leaking_splits(_manifest(group=list("aab"), split=["train", "train", "test"]))
    refuse_leaking_splits(_manifest(group=list("aab")))


def test_groups_that_share_an_image_are_refused_on_both_sides_of_a_split() -> None:
    made = _manifest(group=list("abcd"), split=["train", "test", "test", ""])
    merged = np.array(["a", "a", "c", "a"], dtype=object)
    assert leaking_groups(made, merged) == {"a": ("test", "train")}
    refuse_leaking_splits(made)
    with pytest.raises(InputError, match=r"\(a in train and b in test; memorisk images check names the images\)"):
        refuse_leaking_splits(made, merged)
    refuse_leaking_splits(made, np.array(["a", "b", "b", "a"], dtype=object))


def test_long_lists_are_cut_and_shown_on_one_line() -> None:
    assert listed(["a\nb", "c"]) == "a\\nb, c"
    assert listed(list(range(2000)), 3) == "0, 1, 2 and 1,997 more"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
HOSTILE = st.sampled_from(
    ["<script>alert(1)</script>", "a\nb", '"', "'", "\u202egnp", "🩻", "a|b", "a,b", "=1+1", "\0", "NA", "007"]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(TEXT | HOSTILE, TEXT | HOSTILE, TEXT | HOSTILE, st.none() | st.integers(0, 2**40)),
        min_size=1,
        max_size=12,
        unique_by=lambda row: row[0],
    ),
    split=st.booleans(),
)
def test_any_text_survives_parquet(tmp_path: Path, rows: list, split: bool) -> None:
    columns = {
        "image": [f"{image}." for image, *_ in rows],
        "label": [label for _, label, *_ in rows],
        "group": [group for _, _, group, _ in rows],
    }
    manifest = _manifest(**columns)
    manifest.table["frame"] = pd.array([frame for *_, frame in rows], dtype="Int64")
    if split:
        manifest.table["split"] = [label for _, label, *_ in rows]
    manifest.validate()
    manifest.save(tmp_path / "m.parquet")
    again = Manifest.load(tmp_path / "m.parquet", Path("/data"))
    for column in manifest.table.columns:
        assert again.table[column].tolist() == manifest.table[column].tolist(), column
    assert again.images.tolist() == columns["image"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    labels=st.lists(TEXT | HOSTILE, min_size=2, max_size=6),
    groups=st.lists(TEXT | HOSTILE, min_size=2, max_size=6),
    kind=st.sampled_from(["parquet", "csv"]),
)
def test_any_label_and_group_of_a_table_is_kept(
    tmp_path: Path, labels: list[str], groups: list[str], kind: str
) -> None:
    n = min(len(labels), len(groups))
    # what a CSV file cannot say is left to Parquet: a lone carriage return, a NUL, white space at the ends
    if kind == "csv":
        labels, groups = ([t.replace("\0", "").replace("\r", "") for t in texts] for texts in (labels, groups))
    labels, groups = ([t.strip() for t in texts[:n]] for texts in (labels, groups))
    groups = [f"{g} is known" if placeholders([normal_id(g)]) else g for g in groups]  # refused: test_identity
    groups = [normal_id(g) for g in [f"one{groups[0]}", f"two{groups[1]}", *groups[2:]]]
    for k in range(n):
        (tmp_path / f"{k}.png").write_bytes(b"not looked at")
    table = pd.DataFrame({"image": [f"{k}.png" for k in range(n)], "label": labels, "group": groups})
    path = tmp_path / f"table.{kind}"
    table.to_parquet(path) if kind == "parquet" else table.to_csv(path, index=False)
    manifest = load_manifest(path, ImageOptions())
    labels = [normal_label(label) for label in labels]
    assert manifest.labels.tolist() == labels
    expected = [g or f"{k}.png" for k, g in enumerate(groups)]
    assert [g.removesuffix(" (alone)") for g in manifest.groups] == expected
    manifest.save(tmp_path / "again.parquet")
    again = load_manifest(tmp_path / "again.parquet")
    assert again.labels.tolist() == labels
    assert again.groups.tolist() == manifest.groups.tolist()


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"layout": "folders"}, "unknown layout 'folders'. Did you mean 'folder'"),
        ({"resize": "squish"}, "unknown resize"),
        ({"depth": 12}, "depth is 12; allowed are 8, 16"),
        ({"channels": 2}, "channels is 2"),
        ({"skip_missing": "yes"}, "skip_missing is 'yes'; give true or false"),
        ({"size": 0}, "size is 0; it must be a whole number"),
        ({"frame_step": True}, "frame_step is True"),
        ({"group_from": "("}, "not a regular expression"),
        ({"group_from": "a", "group_column": "b"}, "give one of them"),
        ({"label_from": "a", "label_column": "b"}, "give one of them"),
    ],
)
def test_options_are_checked(values: dict, what: str) -> None:
    with pytest.raises(InputError, match=what.replace("(", r"\(") if "regular" not in what else what):
        load_manifest("digits", ImageOptions(**values))


def test_every_option_has_a_line_of_help() -> None:
    import ast
    import inspect
    import itertools

    from memorisk.images import options

    body = next(node for node in ast.parse(inspect.getsource(options)).body if isinstance(node, ast.ClassDef)).body
    for node, after in itertools.pairwise(body):
        if isinstance(node, ast.AnnAssign):
            assert isinstance(after, ast.Expr), ast.unparse(node)
            assert isinstance(after.value, ast.Constant), ast.unparse(node)
