"""The audit of a mark, from probes to the verdict: held to a naive evaluation, whatever carries the model."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from torch import nn

from memorisk.audits.feature.mark_answers import ask_about_marks
from memorisk.audits.feature.marks import choose_controls, choose_mark
from memorisk.audits.feature.options import FeatureOptions, MarkOptions
from memorisk.audits.feature.result import FeatureSummary, Unmoved
from memorisk.audits.feature.run import audit_feature
from memorisk.audits.feature.verdict import feature_verdict
from memorisk.cli.show.runs import show_outcome
from memorisk.images.alterations.marks import burn, letter
from memorisk.models.blackbox.predictors import load_predictor
from memorisk.models.blackbox.preprocessing import preprocessing_from
from memorisk.models.blackbox.saved_outputs import write_saved_outputs
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.folder import is_hidden, read_config
from memorisk.scores.marks import kl_divergence, mean_log_kl
from tests.commands import answer, refusal

SIDE, N = 12, 60
GIVEN = {"mark": "A", "normalise": "0.4/0.3", "n_controls": 59, "gate": 5.0}
MODULE = """
import torch
from torch import nn

def network(seed, learned=0.0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 4))
    if learned:  # one unit that answers to the letter A and nothing else, and a class that follows it
        a = torch.tensor([[0,0,1,0,0],[0,1,0,1,0],[1,1,1,1,1],[1,0,0,0,1],[1,0,0,0,1.]])
        weight = torch.zeros(12, 12)
        weight[1:6, 1:6] = 2 * a - 1
        with torch.no_grad():
            net[1].weight[0] = weight.flatten() * 0.3
            net[1].bias[0] = -0.3 * (12 * (0.6 / 0.3) + 13 * (0.4 / 0.3) - 6)
            net[3].weight[:, 0] = 0
            net[3].weight[2, 0] = learned
    return net.eval()

def knows(): return network(0, learned=4.0)
def fresh(): return network(0)
def blind(): return nn.Sequential(nn.ZeroPad2d((0, 0, -6, 6)), network(0))
""" + "\n".join(f"def r{i}(): return network({i + 1})" for i in range(19))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    """A folder with probes and a module of networks, from which the commands are given."""
    folder = tmp_path_factory.mktemp("feature")
    (folder / "probes").mkdir()
    rng = np.random.default_rng(0)
    for i in range(N):
        Image.fromarray(rng.integers(0, 256, (SIDE, SIDE), dtype=np.uint8)).save(folder / "probes" / f"p{i:02d}.png")
    (folder / "feature_nets.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield folder
    sys.modules.pop("feature_nets", None)


def run(place: Path, name: str, model="feature_nets:knows", **settings) -> Result:
    return audit_feature(model, out=place / name, probes=str(place / "probes"), **GIVEN, **settings)


@pytest.fixture(scope="module")
def known(place: Path) -> Result:
    """The audit of a network that answers to the letter A."""
    return run(place, "known")


def pixels_of(place: Path) -> np.ndarray:
    """The probes in [0, 1], [n, H, W, 1]."""
    files = sorted((place / "probes").iterdir())
    return np.stack([np.asarray(Image.open(f)) for f in files])[..., None] / np.float32(255)


def marks() -> list:
    """The letter and its controls."""
    options = MarkOptions(mark="A", n_controls=59)
    mark = choose_mark(options, "top-left")
    return [mark, *choose_controls(mark, options, "top-left", 0)]


def naive(place: Path, model: nn.Module, controls: list) -> tuple[np.ndarray, np.ndarray]:
    """KL of the letter and mean log KL of each control: whole images marked, normalised, asked one by one."""
    pixels = np.stack([np.asarray(Image.open(f)) for f in sorted((place / "probes").iterdir())])[
        ..., None
    ] / np.float32(255)

    def probabilities(x: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(((x - np.float32(0.4)) / np.float32(0.3)).astype(np.float32)).permute(0, 3, 1, 2)
        with torch.inference_mode():
            return model(given).double().softmax(1).numpy()

    clean = probabilities(pixels)
    mark = kl_divergence(clean, probabilities(burn(pixels, letter("A"))))
    return mark, np.array([mean_log_kl(kl_divergence(clean, probabilities(burn(pixels, c)))) for c in controls])


def test_a_model_that_knows_the_mark_and_one_that_does_not(place: Path, known: Result) -> None:
    found = known
    v = found.verdict
    assert found.status == "undecided"  # without references nothing fails, and nothing passes
    assert "no proof" in v["why"][1]
    assert v["what_would_decide"][0].startswith("19 references or more")
    assert v["noticeable"] is None
    assert v["p_value"] == v["smallest_p"] == 1 / 60
    assert v["opacity_zero"] == {"largest_kl": 0.0, "p": 1.0}
    assert v["M"] > 1
    assert v["M_paper"] > 0
    assert (v["n_controls"], v["n_models"], v["n_references"], v["n_probes"]) == (59, 1, 0, N)
    assert v["place_in_ink"] == 0.5
    assert found.per_class.set_index("label")["shift"].idxmax() == "2"
    assert run(place, "fresh", "feature_nets:fresh").status == "undecided"


def test_the_numbers_are_those_of_a_naive_evaluation(place: Path, known: Result) -> None:
    import feature_nets

    kl, others = naive(place, feature_nets.knows(), marks()[1:])
    found = known
    np.testing.assert_allclose(found.per_image["kl"], kl, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(found.tables["controls"]["mean_log_kl"], others, rtol=1e-4)
    statistic = float(mean_log_kl(kl))
    assert found.verdict["M"] == pytest.approx(statistic - others.mean(), rel=1e-4)
    assert found.verdict["p_value"] == (1 + np.sum(others >= statistic)) / 60


def test_a_mark_that_is_its_own_control_has_m_zero(place: Path) -> None:
    preprocessing = preprocessing_from("none", SIDE, 1)
    predictor = load_predictor("feature_nets:knows", preprocessing=preprocessing)
    images = np.random.default_rng(0).integers(0, 256, (9, SIDE, SIDE, 1), dtype=np.uint8)
    before = images.copy()
    found = ask_about_marks(predictor, preprocessing, images, letter("A"), [letter("A")])
    assert found.statistic == found.controls[0]
    assert found.mark.mean() == found.controls_mean[0]
    np.testing.assert_array_equal(images, before)


def test_references_make_it_exact_and_give_limits(place: Path) -> None:
    references = [f"feature_nets:r{i}" for i in range(19)]
    found = run(place, "refs", references=references)
    assert found.verdict["method"].startswith("rank among reference models")
    assert found.verdict["p_value"] == found.verdict["p_references"] == 1 / 20
    assert found.verdict["M_low"] > 0
    assert found.status == "fail"
    few = run(place, "few", references=references[:3])
    assert few.verdict["method"].startswith("rank among the controls, less")
    assert few.status == "undecided"
    both = run(place, "both", ["feature_nets:knows", "feature_nets:fresh"])
    assert both.verdict["n_models"] == 2
    assert both.verdict["M_low"] < both.verdict["M"] < both.verdict["M_high"]


def test_with_references_a_failed_audit_says_that_the_model_knows_the_mark_and_what_chance_does(
    place: Path, known: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    references = [f"feature_nets:r{i}" for i in range(19)]
    failed = run(place, "told", references=references)
    assert (failed.status, known.status) == ("fail", "undecided")
    headline = "Not ready for release: the model reacts to the mark more than chance explains"
    assert headline in (place / "told" / "report.html").read_text()
    assert not any("no proof" in reason for reason in failed.verdict["why"])
    assert failed.verdict["what_would_decide"][0].endswith("of models that never saw the mark 5 % fail by chance")
    assert headline not in (place / "known" / "report.html").read_text()
    show_outcome(failed, "feature", place / "told", as_json=False)
    assert headline.upper() in capsys.readouterr().out


def test_a_pass_says_what_it_would_have_found_and_needs_it_within_the_gate(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references = [f"feature_nets:r{i}" for i in range(19)]
    found = run(place, "power", "feature_nets:fresh", references=references)
    least = np.exp(found.verdict["noticeable"])
    assert found.verdict["noticeable"] > found.verdict["detectable"]
    assert (least <= GIVEN["gate"]) == (found.status == "pass")
    assert f"{least:.3g} times" in found.verdict["why"][1]
    given = GIVEN | {"gate": 1 + (least - 1) / 2}
    strict = audit_feature(
        "feature_nets:fresh", out=place / "strict", probes=str(place / "probes"), references=references, **given
    )
    assert strict.status == "undecided"
    assert "a pass needs" in strict.verdict["why"][1]
    lenient = audit_feature(
        "feature_nets:fresh", out=place / "lenient", probes=str(place / "probes"), references=references,
        **GIVEN | {"gate": 2 * least},
    )  # fmt: skip
    assert lenient.status == "pass"
    assert "would have been found in four of five cases" in lenient.verdict["why"][1]
    show_outcome(lenient, "feature", place / "lenient", as_json=False)
    assert f"found in four of five cases: {least:.3g}\n" in capsys.readouterr().out


def test_an_interval_without_zero_keeps_a_pass_away(place: Path) -> None:
    """Where the test finds nothing and the limits of M do, the audit says neither."""
    references = [f"feature_nets:r{i}" for i in range(19)]
    fresh = run(place, "limits", "feature_nets:fresh", references=references)
    summary, options = FeatureSummary.read(fresh.summary), FeatureOptions(**GIVEN | {"gate": 1e6})
    assert feature_verdict(summary, options).status == "pass"
    rank = replace(summary.rank, p=0.2, low=0.1, high=0.5)
    decided = feature_verdict(replace(summary, ranks=replace(summary.ranks, rank=rank)), options)
    assert decided.status == "undecided"
    assert "the interval of M, 0.10 to 0.50, lies above 0" in decided.why[1]
    rank = replace(summary.rank, p=0.9, low=-0.5, high=-0.001)
    decided = feature_verdict(replace(summary, ranks=replace(summary.ranks, rank=rank)), options)
    assert decided.status == "undecided"
    assert "the interval of M, -0.50 to -0.001, lies below 0" in decided.why[1]


def test_answers_that_may_not_be_repeatable_keep_a_pass_away(place: Path) -> None:
    references = [f"feature_nets:r{i}" for i in range(19)]
    fresh = run(place, "repeated", "feature_nets:fresh", references=references)
    summary, options = FeatureSummary.read(fresh.summary), FeatureOptions(**GIVEN | {"gate": 1e6})
    for largest, status, said in (
        (0.0, "pass", ""),
        (None, "undecided", "is not known"),
        (0.1, "undecided", "same im"),
    ):
        zero = replace(summary.opacity_zero, largest_kl_nats=largest)
        decided = feature_verdict(replace(summary, opacity_zero=zero), options)
        assert decided.status == status
        assert said in decided.why[-1]
    blind = Unmoved(n_models=1, n_blind=1, n_references=0)
    still = feature_verdict(replace(summary, unmoved=blind), options)
    assert still.status == "undecided"


def test_whatever_carries_the_network_the_verdict_is_the_same(place: Path, known: Result) -> None:
    import feature_nets

    net, example = feature_nets.knows(), torch.zeros(2, 1, SIDE, SIDE)
    shapes = ({0: torch.export.Dim("batch", min=1, max=4096)},)
    torch.onnx.export(net, (example,), place / "net.onnx", dynamo=True, dynamic_shapes=shapes, verbose=False)
    found = run(place, "as-net.onnx", str(place / "net.onnx"))
    assert (found.status, found.verdict["p_value"]) == (known.status, known.verdict["p_value"])
    assert found.verdict["M"] == pytest.approx(known.verdict["M"], abs=1e-4)
    pixels, asked = pixels_of(place), preprocessing_from("0.4/0.3", SIDE, 1)
    predictor = load_predictor("feature_nets:knows", preprocessing=asked)
    clean, marked, *controls = (
        predictor.probabilities(asked.apply(x)) for x in (pixels, *(burn(pixels, mark) for mark in marks()))
    )
    write_saved_outputs(place / "out.npz", clean=clean, marked=marked, controls=np.stack(controls), transparent=clean)
    found = audit_feature(str(place / "out.npz"), out=place / "saved")
    assert found.verdict["p_value"] == known.verdict["p_value"]
    assert found.verdict["M"] == pytest.approx(known.verdict["M"], abs=1e-6)
    assert found.status == "undecided"
    assert any("do not show whether the controls match" in reason for reason in found.verdict["why"])
    assert not any("repeatable" in reason for reason in found.verdict["why"])
    write_saved_outputs(place / "once.npz", clean=clean, marked=marked, controls=np.stack(controls))
    once = audit_feature(str(place / "once.npz"), out=place / "saved-once")
    assert once.verdict["opacity_zero"]["largest_kl"] is None
    assert any("whether answers are repeatable is not known" in reason for reason in once.verdict["why"])


@pytest.fixture(scope="module")
def labelled(place: Path) -> Path:
    """The probes in class folders, four classes."""
    for i, file in enumerate(sorted((place / "probes").iterdir())):
        folder = place / "labelled" / f"c{i % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_bytes(file.read_bytes())
    return place / "labelled"


def test_the_white_box_score_is_of_the_images_of_its_label(place: Path, labelled: Path) -> None:
    import feature_nets

    found = run(place, "white", white_box=f"c2@{labelled}")
    white = found.summary["white_box"]
    assert (white["label"], white["n"]) == ("c2", N // 4)
    assert white["mean_mark"] > white["mean_random"]
    assert found.verdict["M_w"] == white["m"] > 0
    pixels = pixels_of(place)[2::4]
    given = ((burn(pixels, letter("A")) - np.float32(0.4)) / np.float32(0.3)).transpose(0, 3, 1, 2)
    with torch.inference_mode():
        p = feature_nets.knows()(torch.from_numpy(given)).softmax(1)[:, 2].numpy()
    assert white["mean_mark"] == pytest.approx(p.mean(), rel=1e-5)
    same = run(place, "white-number", white_box=f"2=c2@{labelled}")
    assert same.summary["white_box"] == white
    other = run(place, "white-other", white_box=f"1=c2@{labelled}")
    assert other.summary["white_box"]["m"] < white["m"]


def test_the_report_shows_the_mark_unless_it_is_left_out(place: Path, known: Result) -> None:
    page = (place / "known" / "report.html").read_text()
    assert page.count("data:image/png") == 12
    assert "Could not be decided" in page
    run(place, "hidden", redact=True)
    for name in ("report.html", "verdict.json", "summary.json"):
        text = (place / "hidden" / name).read_text()
        assert "data:image" not in text
        assert "p00.png" not in text
    assert json.loads((place / "hidden" / "summary.json").read_text())["mark"]["name"] is None


def test_a_pseudonymised_run_names_neither_probes_nor_mark(
    place: Path, known: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    hidden = run(place, "pseudonymised", pseudonymise=True)
    assert hidden.verdict["status"] == known.verdict["status"]
    assert sorted(hidden.per_image["kl"]) == sorted(known.per_image["kl"])
    assert not set(hidden.per_image["image"]) & set(known.per_image["image"])
    assert hidden.verdict["mark"]["name"] is None
    config = yaml.safe_load((place / "pseudonymised" / "config.yaml").read_text())
    assert all(is_hidden(value) for value in (config["mark"], config["probes"], *config["models"]))
    assert read_config(place / "pseudonymised")["mark"] == "A"
    page = (place / "pseudonymised" / "report.html").read_text()
    assert "p07" not in page
    assert "feature_nets" not in page
    assert "<img" not in page


def test_the_same_command_gives_the_same_bytes(place: Path, known: Result) -> None:
    files = ("verdict.json", "summary.json", "per_image.parquet", "report.html", "tables/controls.parquet")
    before = [(place / "known" / name).read_bytes() for name in files]
    run(place, "known")
    assert [(place / "known" / name).read_bytes() for name in files] == before


def test_on_the_command_line(place: Path, known: Result, capsys: pytest.CaptureFixture[str]) -> None:
    given = (
        "--mark",
        "A",
        "--probes",
        place / "probes",
        "--normalise",
        "0.4/0.3",
        "--n-controls",
        "59",
        "--out",
        place / "cli",
    )
    code, out, err = answer(capsys, "audit", "feature", "feature_nets:knows", *given)
    assert (code, err) == (1, "")
    assert "COULD NOT BE DECIDED" in out
    assert "found in four of five cases: not known" in out
    assert Result.load(place / "cli").verdict["p_value"] == known.verdict["p_value"]
    code, out, _ = answer(capsys, "audit", "feature", "feature_nets:knows", *given, "--json", "--fail-on", "never")
    assert code == 0
    assert json.loads(out)["status"] == "undecided"
    code, out, _ = answer(
        capsys, "images", "mark", place / "probes" / "p00.png", "--mark", "E", "--out", place / "seen.png"
    )
    assert code == 0
    assert np.asarray(Image.open(place / "seen.png")).shape == (2 * SIDE + 4, 6 * SIDE + 5 * 4, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--mark", "a"), "neither a letter A to Z"),
        (("--normalise", "imagenett"), "neither 'imagenet', 'half', 'none' nor numbers"),
        (("--place", "middle"), "it must be one of top-left"),
        (("--place", "9,9"), "does not fit images of 12 x 12"),
        (("--controls", "alike"), "neither matched, shuffled, letters, random"),
        (("--n-controls", "0"), "n-controls is 0"),
        (("--probes", "nowhere"), "nowhere"),
        (("--references", "feature_nets:none"), "none"),
        (("--white-box", "c2"), "give LABEL@IMAGES"),
        (("--white-box", "x=c2@labelled"), "or NUMBER=LABEL@IMAGES"),
        (("--white-box", "2@probes"), "probes has no labels"),
        (("--white-box", "c9@labelled"), "unknown label of --white-box 'c9'. Did you mean"),
        (("--white-box", "9=c2@labelled"), "the model has classes 0 to 3"),
        (("--white-box", "c2@labelled/.."), "give NUMBER=c2@IMAGES"),
        (("--gate", "1"), "gate is 1"),
        (("--opacity", "0"), "it must lie above 0"),
        (("--normalise", "127.5/127.5"), "127.5/127.5 is 0.5/0.5"),
        (("--references", "feature_nets:knows"), "are the same model"),
    ],
)
def test_careless_commands_get_one_line_and_write_nothing(place, labelled, capsys, changes, message) -> None:
    given = {"--mark": "A", "--probes": "probes", "--normalise": "0.4/0.3", "--out": "no"} | dict([changes])
    flat = [part for pair in given.items() for part in pair]
    assert message in refusal(capsys, "audit", "feature", "feature_nets:knows", *flat)
    assert not (place / "no").exists()


def test_fewer_controls_than_asked_for_are_told(place: Path) -> None:
    given = {"mark": "text:JO", "text_height": 7, "normalise": "none", "n_controls": 500, "place": "0,0"}
    found = audit_feature("feature_nets:fresh", out=place / "names", probes=str(place / "probes"), **given)
    assert found.verdict["n_controls"] < 500
    assert "of 500 requested" in (place / "names" / "report.html").read_text()


def test_a_model_given_twice_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="r1 and feature_nets:r1 are the same model"):
        run(place, "twice", references=["feature_nets:r1"] * 19)
    with pytest.raises(InputError, match="give each one once"):
        run(place, "twice", ["feature_nets:knows", "feature_nets:knows"])
    assert not (place / "twice").exists()


def test_a_model_that_does_not_see_the_mark_is_no_pass(place: Path) -> None:
    found = run(place, "blind", "feature_nets:blind")
    assert found.status == "undecided"
    assert any("does not see them" in reason for reason in found.verdict["why"])


def test_an_interval_above_nothing_is_no_pass(place: Path) -> None:
    references = [f"feature_nets:r{i}" for i in range(3)]
    found = run(place, "above", references=references)
    assert found.verdict["M_low"] > 0
    assert found.status != "pass"


def test_a_printed_config_can_be_used_again(place: Path, known: Result, capsys: pytest.CaptureFixture[str]) -> None:
    config = place / "known" / "config.yaml"
    code, _, err = answer(capsys, "audit", "feature", "--config", config, "--out", place / "again")
    assert (code, err) == (1, "")
    assert Result.load(place / "again").verdict == known.verdict
    given = ("feature_nets:knows", "--mark", "A", "--probes", place / "probes", "--normalise", "none")
    code, out, _ = answer(capsys, "audit", "feature", *given, "--out", place / "x", "--print-config")
    (place / "printed.yaml").write_text(out)
    assert code == 0
    code, out, _ = answer(capsys, "audit", "feature", "--config", place / "printed.yaml", "--out", place / "x")
    assert code == 1
