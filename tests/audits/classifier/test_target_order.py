"""The order of a model's outputs, seen on images that it was trained on, before anything is trained."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy import stats

from memorisk.audits.classifier.options import options_from
from memorisk.audits.classifier.planning.plan import draw_parts
from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.classifier.target.order import check_order, one_hot_answers, one_hot_labels
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.levels import ORDER_LEVEL
from memorisk.training.classifiers.command import train_classifier
from memorisk.training.engine.data import ordered_classes


def drawn(rng: np.random.Generator, accuracy: float, sizes: tuple[int, ...], favourite: float = 0.0):
    """Answers, classes and patients (of two images each) of a model that is so often right, else at random.

    Args:
        rng: Source of randomness.
        accuracy: Share of images that it answers by what they show.
        sizes: Images of each class.
        favourite: Share of the others that it answers with the first class.
    """
    label = np.repeat(np.arange(len(sizes)), sizes)
    guessed = np.where(rng.random(len(label)) < favourite, 0, rng.integers(0, len(sizes), len(label)))
    answer = np.where(rng.random(len(label)) < accuracy, label, guessed)
    k = len(sizes)
    return np.eye(k)[answer], np.eye(k, dtype=bool)[label], np.arange(len(label)) // 2


@pytest.mark.parametrize("sizes", [(40, 40), (200, 10), (20,) * 12, (300, 60, 10, 10)])
def test_a_model_that_guesses_is_no_model_of_another_order(sizes: tuple[int, ...]) -> None:
    repeats, others, fits = 80, 0, 0
    for seed in range(repeats):
        rng = np.random.default_rng([1, seed])
        check = check_order(*drawn(rng, 0.0, sizes, favourite=0.5))
        others, fits = others + check.another, fits + check.fits
    most = stats.binom.ppf(0.999, repeats, ORDER_LEVEL)
    assert others <= most
    assert fits <= most


@pytest.mark.parametrize("sizes", [(40, 40), (200, 10), (20,) * 12, (300, 60, 10, 10)])
def test_a_good_model_is_taken_in_its_order_and_known_in_any_other(sizes: tuple[int, ...]) -> None:
    for seed in range(10):
        rng = np.random.default_rng([2, seed])
        answers, truth, groups = drawn(rng, 0.8, sizes)
        assert check_order(answers, truth, groups).fits
        order = rng.permutation(len(sizes))
        if (order == np.arange(len(sizes))).all():
            continue
        check = check_order(answers[:, order], truth, groups)  # class order[j] is answered by output j
        assert check.another
        assert not check.fits
        assert order[list(check.best)].tolist() == list(range(len(sizes)))
        assert check.best_index > check.given_index + 0.3


def test_a_constant_answer_shows_no_order() -> None:
    truth = np.eye(3, dtype=bool)[np.repeat([0, 1, 2], 30)]
    check = check_order(np.eye(3)[np.zeros(90, dtype=int)], truth, np.arange(90))
    assert (check.fits, check.another, check.best) == (False, False, (0, 1, 2))
    assert check.given_index == pytest.approx(0, abs=1e-9)


def test_answers_of_every_head() -> None:
    assert one_hot_answers(np.array([[0.1, 2.0], [3.0, 1.0]]), "single").tolist() == [[0, 1], [1, 0]]
    assert one_hot_answers(np.array([[0.5], [-0.5]]), "binary").tolist() == [[0, 1], [1, 0]]
    assert one_hot_answers(np.array([[1.0, 5.0], [2.0, 4.0]]), "multi").tolist() == [[0.25, 0.75], [0.75, 0.25]]
    assert one_hot_labels(np.array([1, 0]), "first", 2).tolist() == [[False, True], [True, False]]
    assert one_hot_labels(np.array([1.0, 0.0]), "binary", 2).tolist() == [[False, True], [True, False]]
    assert one_hot_labels(np.array([[1.0, 1.0]]), "multi", 2).tolist() == [[True, True]]


def test_findings_in_another_order_are_seen_by_their_ranks() -> None:
    rng = np.random.default_rng(4)
    truth = rng.random((300, 4)) < (0.5, 0.2, 0.1, 0.05)
    logits = 3.0 * truth + rng.standard_normal(truth.shape)
    answers, groups = one_hot_answers(logits, "multi"), np.arange(300)
    assert check_order(answers, truth, groups).fits
    check = check_order(answers[:, [1, 0, 2, 3]], truth, groups)
    assert check.another
    assert check.best == (1, 0, 2, 3)


def test_whole_numbers_are_sorted_by_value_and_other_names_as_text() -> None:
    assert ordered_classes(str(n) for n in range(12)) == [str(n) for n in range(12)]
    assert ordered_classes(["10", "9", "b"]) == ["10", "9", "b"]
    assert ordered_classes(["02", "1", "10", "1"]) == ["1", "02", "10"]
    assert ordered_classes(["٣", "10"]) == ["10", "٣"]  # digits of another script are text
    assert ordered_classes(["ja", "nein"]) == ["ja", "nein"]


QUICK = {"model": "small_cnn", "normalise": "dataset", "batch_size": 16, "processes": 1}


@pytest.fixture(scope="module")
def numbered(tmp_path_factory) -> Path:
    """Twelve classes named 0 to 11, each of one bright column, in train and test parts."""
    rng = np.random.default_rng(5)
    labels = np.tile(np.arange(12), 12)
    images = rng.integers(0, 40, (len(labels), 12, 12), dtype=np.uint8)
    images[np.arange(len(labels)), :, labels] += 180
    test = np.arange(len(labels)) >= 96
    file = tmp_path_factory.mktemp("numbered") / "set.npz"
    np.savez(
        file, train_images=images[~test], train_labels=labels[~test], test_images=images[test], test_labels=labels[test]
    )
    return file


@pytest.fixture(scope="module")
def trained(numbered: Path, tmp_path_factory) -> Path:
    """Weights of a network trained on the training part, with its outputs in the order 0, 1, 2, ..."""
    out = tmp_path_factory.mktemp("trained") / "run"
    given = {name: value for name, value in QUICK.items() if name != "processes"}
    train_classifier(numbered, out=out, splits="given", epochs=8, lr=3e-3, **given)
    return out / "full" / "weights.safetensors"


def with_outputs(weights: Path, file: Path, order: list[int]) -> Path:
    """Copy weights with the outputs of the head in another order."""
    tensors = load_file(weights)
    head = {name: value[order].contiguous() for name, value in tensors.items() if value.shape[:1] == (12,)}
    assert len(head) == 2
    save_file(tensors | head, file)
    return file


def refusal(target: Path, numbered: Path, out: Path, **settings) -> str:
    with pytest.raises(InputError) as caught:
        audit_classifier(numbered, out=out, target=target, models=2, epochs=1, **QUICK, **settings)
    assert not out.exists()
    return str(caught.value)


def test_a_target_in_the_order_of_its_numbers_is_taken(numbered: Path, trained: Path, tmp_path: Path) -> None:
    plan = audit_classifier(numbered, out=tmp_path / "run", target=trained, models=2, epochs=1, dry_run=True, **QUICK)
    assert not (tmp_path / "run").exists()
    assert plan.parts == {"canary": 96, "test": 48}


def test_a_target_in_another_order_is_refused_with_that_order(numbered: Path, trained: Path, tmp_path: Path) -> None:
    as_text = sorted(range(12), key=str)
    target = with_outputs(trained, tmp_path / "text.safetensors", as_text)
    message = refusal(target, numbered, tmp_path / "run")
    named = message.rpartition("--target-classes ")[2]
    assert named == ",".join(map(str, as_text))
    assert "\n" not in message
    given = {"target_classes": named, "models": 2, "epochs": 1, "dry_run": True, **QUICK}
    audit_classifier(numbered, out=tmp_path / "run", target=target, **given)
    wrong = refusal(target, numbered, tmp_path / "run", target_classes=",".join(map(str, range(12))))
    assert wrong.endswith(named)


def test_a_target_that_knows_nothing_has_to_be_named_with_its_order(numbered, trained, tmp_path: Path) -> None:
    tensors = load_file(trained)
    head = {name: torch.zeros_like(value) for name, value in tensors.items() if value.shape[:1] == (12,)}
    save_file(tensors | head, tmp_path / "zero.safetensors")
    message = refusal(tmp_path / "zero.safetensors", numbered, tmp_path / "run")
    assert "does not show their order" in message
    named = message.rpartition("--target-classes ")[2]
    given = {"target_classes": named, "models": 2, "epochs": 1, "dry_run": True, **QUICK}
    audit_classifier(numbered, out=tmp_path / "run", target=tmp_path / "zero.safetensors", **given)


def test_a_target_without_numbers_is_refused_first(numbered: Path, trained: Path, tmp_path: Path) -> None:
    tensors = load_file(trained)
    head = {name: torch.full_like(value, torch.nan) for name, value in tensors.items() if value.shape == (12,)}
    save_file(tensors | head, tmp_path / "nan.safetensors")
    message = refusal(tmp_path / "nan.safetensors", numbered, tmp_path / "run")
    assert "outputs for 96 of 96 images are not finite numbers" in message


def test_the_classes_of_the_case_are_in_the_order_of_their_numbers() -> None:
    case = Path(__file__).resolve().parents[4] / "shared" / "cases" / "43-integer-classes" / "set.npz"
    if not case.is_file():
        pytest.skip(f"{case} is absent")
    options = options_from({"splits": "given"})
    parts = draw_parts(load_manifest(case, options), [], options, 0)
    assert parts.classes == [str(number) for number in range(12)]
