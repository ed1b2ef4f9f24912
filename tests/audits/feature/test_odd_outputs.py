"""Saved outputs that cannot carry a pass: a mark without effect, references that are no null, copies of the model."""

from pathlib import Path

import numpy as np
import pytest

from memorisk.audits.feature.run import audit_feature
from memorisk.models.blackbox.saved_outputs import write_saved_outputs
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from tests.audits.feature.mark_outputs import (
    CLASSES,
    CONTROLS,
    PROBES,
    REFERENCES,
    Arrays,
    answers,
    audit,
    harmless_references,
    planted,
)


def codes(result: Result) -> set[str]:
    """Codes of the reasons of a verdict."""
    return {reason["code"] for reason in result.verdict["reasons"]}


@pytest.fixture
def references() -> list[Arrays]:
    """Outputs of models that never saw the mark."""
    return harmless_references()


def test_outputs_of_a_harmless_model_pass_and_those_of_a_planted_mark_fail(
    tmp_path: Path, references: list[Arrays]
) -> None:
    for name, model, status in (("harmless", answers(0), "pass"), ("planted", planted(answers(0)), "fail")):
        (tmp_path / name).mkdir()
        assert audit(tmp_path / name, model, references).status == status


def test_a_mark_that_never_reached_the_model_is_no_pass(tmp_path: Path, references: list[Arrays]) -> None:
    """The controls move the answers, so that only the mark is missing."""
    model = answers(0)
    result = audit(tmp_path, model | {"marked": model["clean"]}, references)
    assert result.status == "undecided"
    (reason,) = (one for one in result.verdict["reasons"] if one["code"] == "mark-not-seen")
    assert (reason["n_unmoved"], reason["n_blind"], reason["n_models"]) == (1, 0, 1)
    assert "and its controls do" in reason["text"]


def test_a_mark_that_moves_answers_by_less_than_a_repetition_does_is_no_pass(
    tmp_path: Path, references: list[Arrays]
) -> None:
    """Answers differ at every query by 1e-4 in logits, which a repetition shows and which counts as repeatable."""
    noise = np.random.default_rng(1).uniform(-1e-4, 1e-4, size=(2, PROBES, CLASSES))
    model = answers(0)
    queried = model | {"clean": model["clean"] + 2 * noise[0], "marked": model["clean"] + 2 * noise[0] + noise[1] / 9}
    theirs: Arrays = {f"references_{name}": np.stack([one[name] for one in references]) for name in model}
    write_saved_outputs(tmp_path / "out.npz", **queried, **theirs, transparent=model["clean"])
    result = audit_feature(str(tmp_path / "out.npz"), out=tmp_path / "run")
    assert result.summary["mean_kl"] > 1e-12
    assert result.status == "undecided"
    assert "mark-not-seen" in codes(result)
    assert "mark-not-repeatable" not in codes(result)


@pytest.mark.parametrize("controls_move", [False, True])
@pytest.mark.parametrize("n_unmoved", [1, REFERENCES])
def test_references_that_the_mark_does_not_move_are_no_null(
    tmp_path: Path, references: list[Arrays], n_unmoved: int, controls_move: bool
) -> None:
    for one in references[:n_unmoved]:
        one["marked"] = one["clean"]
        if not controls_move:
            one["controls"] = np.repeat(one["clean"][None], CONTROLS, axis=0)
    result = audit(tmp_path, answers(0), references)
    assert result.status == "undecided"
    (reason,) = (one for one in result.verdict["reasons"] if one["code"] == "mark-references-unmoved")
    assert (reason["n_unmoved"], reason["n_references"]) == (n_unmoved, REFERENCES)


def test_a_model_that_is_surely_less_sensitive_than_its_references_is_no_pass(
    tmp_path: Path, references: list[Arrays]
) -> None:
    model = answers(0)
    weak = model | {"marked": model["clean"] + (model["marked"] - model["clean"]) / 1000}
    result = audit(tmp_path, weak, references)
    assert result.verdict["M_high"] < 0
    assert result.status == "undecided"
    assert "mark-interval-below-zero" in codes(result)


def rounded_copies(model: Arrays, n: int) -> list[Arrays]:
    """Outputs of one model, each with other rounding of single precision."""
    rng = np.random.default_rng(2)
    return [{name: value + 1e-6 * rng.normal(size=value.shape) for name, value in model.items()} for _ in range(n)]


@pytest.mark.parametrize("own", [True, False])
def test_copies_of_a_model_up_to_rounding_are_refused(tmp_path: Path, references: list[Arrays], own: bool) -> None:
    """References that are the audited model hide a planted mark; one reference many times is no null."""
    model = planted(answers(0))
    copies = rounded_copies(model if own else references[0], 2)
    with pytest.raises(InputError, match="are the same model"):
        audit(tmp_path, model, [*references[:20], *(copies[:1] if own else copies)])


def test_models_with_one_probe_one_control_and_two_classes_are_told_apart(tmp_path: Path) -> None:
    """Sixty models give 1,770 pairs of four numbers; other seeds of the outputs give the same."""
    few = [{name: value[..., :1, :2] for name, value in answers(i).items()} for i in range(60)]
    for one in few:
        one["controls"] = one["controls"][:1]
    assert audit(tmp_path, few[0], few[1:]).verdict["n_references"] == 59


def test_references_of_equal_sensitivity_are_no_null(tmp_path: Path) -> None:
    """References whose mark is one of their controls, and their only one, differ by nothing in M."""
    references = harmless_references()
    for one in references:
        one["controls"] = one["marked"][None]
    model = answers(0)
    result = audit(tmp_path, model | {"controls": model["controls"][:1]}, references)
    assert result.status == "undecided"
    (reason,) = (one for one in result.verdict["reasons"] if one["code"] == "mark-references-alike")
    assert reason["range_log"] == 0
