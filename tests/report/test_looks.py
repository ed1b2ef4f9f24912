"""What a notebook shows of a result: verdict, classes, those flagged, their images, plots on the reader's own axes."""

import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.figure import Figure
from PIL import Image

import memorisk
from memorisk.images.layouts.cached_tables import save_table
from memorisk.report.looks import _image_title
from memorisk.report.result import Result
from memorisk.runs.errors import InputError

mpl.use("Agg")
HOSTILE = "<script>$\\frac{1</script>"


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    folder = tmp_path / "scans"
    folder.mkdir()
    for i in range(4):
        pixels = np.full((5, 5), 50 * i, np.uint8)
        Image.fromarray(pixels).save(folder / f"scan{i}.png")
    return folder


def saved(folder: Path, scans: Path, **config: object) -> Result:
    """A classifier's result of four images and two patients, in a run folder of its own."""
    images = [f"scan{i}.png" for i in range(4)]
    table = pd.DataFrame(
        {
            "image": images,
            "label": ["a", "a", HOSTILE, HOSTILE],
            "group": ["anna", "anna", "bert", "bert"],
            "M": [0.1, 2.5, 0.2, 0.4],
            "flagged": [True, True, False, False],
        }
    )
    result = Result(
        per_image=table,
        per_group=pd.DataFrame({"label": ["a"], "group": ["anna"], "flagged": [True]}),
        per_class=pd.DataFrame(
            {
                "label": ["a", HOSTILE],
                "n": [2, 1],
                "mean": [1.3, np.nan],
                "low": [1, 0.0],
                "high": [2, 0.0],
                "tier": "HIGH",
            }
        ),
        summary={"roc": {"loss_threshold": {"fpr": [0, 0.5, 1], "tpr": [0, 0.9, 1]}}},
        verdict={
            "audit": "classifier",
            "status": "fail",
            "why": ["anna is remembered", f"class {HOSTILE} too"],
            "what_would_decide": ["more models"],
        },
    )
    result.save(folder)
    (folder / "config.yaml").write_text(yaml.safe_dump({"images": str(scans), "group_from": None, **config}))
    table.loc[:, ["image", "group"]].assign(path=images).to_parquet(folder / "manifest.parquet")
    (folder / "report.html").write_text("report")
    return Result.load(folder)


def test_a_notebook_shows_verdict_and_classes_as_text(tmp_path: Path, scans: Path) -> None:
    result = saved(tmp_path / "run", scans)
    shown = result._repr_html_()
    assert "Not ready for release" in shown
    assert ">1.300 [1.000, 2.000]</td>" in shown
    assert "What would decide it" not in shown  # the verdict is decided
    assert "What would settle open questions" in shown
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert str(result.report_path) in shown
    assert "scan" not in shown.replace(str(tmp_path), "")
    assert repr(result).startswith("Result(fail, 2 classes: anna is")


def test_a_set_without_classes_counts_its_images() -> None:
    result = Result(per_image=pd.DataFrame({"image": ["x"], "distance": [0.5]}), verdict={"audit": "synthetic"})
    assert repr(result) == "Result(undecided, 1 images: )"
    assert result.report_path is None
    with pytest.raises(InputError, match="flags no images"):
        result.flagged()
    with pytest.raises(InputError, match="has no run folder"):
        result.show("anna")


def test_flagged_images_have_their_files(tmp_path: Path, scans: Path) -> None:
    flagged = saved(tmp_path / "run", scans).flagged()
    assert flagged["image"].tolist() == ["scan1.png", "scan0.png"]  # the most memorized first
    assert flagged["path"].tolist() == [str(scans / "scan1.png"), str(scans / "scan0.png")]


def test_a_patients_own_p_stands_beside_each_image(tmp_path: Path, scans: Path) -> None:
    result = saved(tmp_path / "run", scans)
    assert "group_p_value" not in result.flagged()  # an older run has none
    groups = pd.DataFrame({"label": ["b", "a"], "group": ["anna", "anna"], "p_value": [0.9, 0.01]})
    result = result.replace(per_group=groups, per_image=result.per_image.assign(p_value=[0.63, 0.01, 1, 1]))
    found = result.flagged()
    assert found["p_value"].tolist() == [0.01, 0.63]
    assert found["group_p_value"].tolist() == [0.01, 0.01]


def test_paths_open_the_files_of_a_table_and_arrays_have_none(
    tmp_path: Path, scans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    files = [str(scans / f"scan{i}.png") for i in range(4)]
    place = save_table(pd.DataFrame({"file": files}))
    result = saved(tmp_path / "run", scans, images=str(place))
    assert [Path(path).is_file() for path in result.flagged()["path"]] == [True, True]
    arrays = memorisk.save_dataset(np.zeros((4, 5, 5), np.uint8))
    result = saved(tmp_path / "arrays", scans, images=str(arrays))
    known = pd.read_parquet(tmp_path / "arrays" / "manifest.parquet")
    known.assign(path="data.parquet").to_parquet(tmp_path / "arrays" / "manifest.parquet")
    assert result.flagged()["path"].tolist() == ["", ""]


def test_an_empty_list_says_where_nobody_could_have_been_on_it(tmp_path: Path, scans: Path) -> None:
    result = saved(tmp_path / "run", scans)
    nobody = result.per_image.assign(flagged=False)
    tested = result.per_class.assign(testable=True, why_not="")
    with warnings.catch_warnings(action="error"):
        attrs = result.replace(per_image=nobody, per_class=tested).flagged().attrs
    assert not {"why_empty", "not_tested"} & set(attrs)
    tested = result.per_class.assign(testable=[True, False], why_not=["", "too few"])
    for some in (result, result.replace(per_image=nobody)):
        with pytest.warns(UserWarning, match=r"^1 of 2 classes was not tested: <script>.* \(too few\)") as told:
            found = some.replace(per_class=tested).flagged()
        assert found.attrs["not_tested"] == str(told[0].message)
        assert "why_empty" not in found.attrs
        assert told[0].filename == __file__
    untested = tested.assign(testable=False)
    with pytest.warns(UserWarning, match=r"not tested: no patient could .* \(too few\)") as told:
        found = result.replace(per_image=nobody, per_class=untested).flagged()
    assert told[0].filename == __file__
    assert found.attrs["why_empty"] == str(told[0].message)
    assert len(result.replace(per_class=untested).flagged()) == 2
    roomless = result.replace(per_image=nobody, per_class=tested.assign(testable=True, room=1.0))  # of few models
    with pytest.warns(UserWarning, match="not tested: no patient could"):
        roomless.flagged()
    unlisted = result.replace(
        verdict={"audit": "synthetic", "n_listed": None},
        tables={"review": pd.DataFrame({"synthetic_image": [], "verdict": []})},
        per_class=pd.DataFrame(),
    )
    with pytest.warns(UserWarning, match="not tested: no list of patients was possible"):
        unlisted.flagged()


def test_titles_name_the_patient_and_the_file_on_lines_of_their_own() -> None:
    assert _image_title("a.png", "a.png") == "a.png"
    assert _image_title("/".join(["folder"] * 20) + "/x01.png", "p1") == "p1\nx01.png"
    long = _image_title(f"/scans/{'0123456789' * 5}.png", "p1").split("\n")
    assert "".join(long[1:]) == f"{'0123456789' * 5}.png"
    assert max(map(len, long)) == 30


def test_an_image_that_was_not_scored_says_so_and_one_name_in_two_folders_is_two_images(
    tmp_path: Path, scans: Path
) -> None:
    names = ["a/x.png", "b/x.png"]
    for i, name in enumerate(names):
        (scans / name).parent.mkdir()
        (scans / f"scan{i}.png").rename(scans / name)
    result = saved(tmp_path / "run", scans)
    table = result.per_image.assign(image=[*names, "scan2.png", "scan3.png"], M=[0.5, np.nan, 1, 1], flagged=False)
    titles = [ax.get_title() for ax in result.replace(per_image=table).show("anna")]
    assert titles == ["anna\nx.png\nM = 0.50", "anna\nx.png\nnot scored"]


def test_a_table_of_losses_names_no_images(tmp_path: Path, scans: Path) -> None:
    result = saved(tmp_path / "run", scans)
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump({"file": "losses.csv"}))
    with pytest.raises(InputError, match="rests on a table of losses, which names no files"):
        result.show("anna")


def test_flagged_pairs_of_a_synthetic_set(tmp_path: Path, scans: Path) -> None:
    pairs = {"synthetic_image": ["s1", "s2"], "training_image": ["scan0.png", "scan1.png"], "patient": ["anna", "anna"]}
    review = pd.DataFrame({**pairs, "verdict": ["", "dismiss"]})
    run = tmp_path / "run"
    Result(tables={"review": review}, verdict={"audit": "synthetic"}).save(run)
    (run / "config.yaml").write_text(yaml.safe_dump({"train": str(scans), "synthetic": str(scans)}))
    (run / "manifests").mkdir()
    table = pd.DataFrame({"image": ["scan0.png"], "path": ["scan0.png"]})
    table.to_parquet(run / "manifests" / "training.parquet")
    flagged = Result.load(run).flagged()
    assert flagged["synthetic_image"].tolist() == ["s1"]  # what a person dismissed is left out
    assert flagged["training_path"].tolist() == [str(scans / "scan0.png")]


def test_a_patients_images_are_drawn_most_memorized_first(tmp_path: Path, scans: Path) -> None:
    result = saved(tmp_path / "run", scans)
    axes = result.show("anna")
    assert [ax.get_title() for ax in axes] == ["anna\nscan1.png\nM = 2.50", "anna\nscan0.png\nM = 0.10"]
    assert (np.asarray(axes[0].images[0].get_array()) == 50).all()
    own = list(Figure().subplots(1, 3))
    assert result.show("bert", axes=own) == own[:2]
    assert [ax.get_title() for ax in result.show("scan3.png")] == ["bert\nscan3.png\nM = 0.40"]
    with pytest.raises(InputError, match=r"'carl' is not a patient.*anna, bert"):
        result.show("carl")
    (scans / "scan1.png").unlink()
    with pytest.raises(InputError, match=r"no image scan1.png any more"):
        result.show("anna")


def test_a_redacted_run_shows_neither_ids_nor_images(tmp_path: Path, scans: Path) -> None:
    result = saved(tmp_path / "run", scans, redact=True)
    assert "anna" not in result._repr_html_() + repr(result)
    assert set(result.flagged()) == {"label", "M", "flagged"}
    with pytest.raises(InputError, match="redact: it shows no images"):
        result.show("anna")
    result = saved(tmp_path / "other", scans, pseudonymise=True)
    assert "path" not in result.flagged()
    with pytest.raises(InputError, match="pseudonymise: it shows no images"):
        result.show("anna")


def test_plots_take_and_give_axes(tmp_path: Path, scans: Path) -> None:
    result = saved(tmp_path / "run", scans)
    ax = Figure().subplots()
    assert result.plot_classes(ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"{HOSTILE}  n = 1", "a  n = 2"]  # the rarest first
    assert [line.get_xdata()[0] for line in ax.get_lines()[1:]] == [0, 0.1, 0.3]
    assert result.plot_roc().get_legend().get_texts()[0].get_text() == "loss threshold"
    curves = {f"attack {i}": {"fpr": [0, 0.5, 1], "tpr": [0, 0.5, 1]} for i in range(10)}
    lines = Result(summary={"roc": curves}, verdict=result.verdict).plot_roc().get_lines()
    assert len({(str(line.get_color()), str(line._unscaled_dash_pattern)) for line in lines}) == 11, "one line each"
    ax.figure.savefig(tmp_path / "classes.png")  # a class may be called as no formula is
    with pytest.raises(InputError, match="audit classifier has no distances"):
        result.plot_distances()
    made = Result(
        per_group=pd.DataFrame({"group": list("abc"), "distance": [0.0, 1.0, np.nan]}),
        tables={
            "real_images": pd.DataFrame({"image": ["x"]}),
            "held_out": pd.DataFrame({"detector": ["d", "e"], "distance": [2.0, 90.0]}),
        },
        verdict={"audit": "synthetic"},
    )
    ax = made.plot_distances()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["training patients", "held-out patients"]
    assert ax.get_xlim()[1] < 3  # the first detector's alone
    with pytest.raises(InputError, match="no memorization of classes"):
        made.plot_classes()


def test_results_load_no_matplotlib() -> None:
    code = (
        "import sys, memorisk; from memorisk.report.result import Result; repr(Result()); "
        "assert not {'matplotlib', 'torch'} & set(sys.modules); Result()._repr_html_(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
