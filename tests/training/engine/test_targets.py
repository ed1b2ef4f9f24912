"""Labels become targets as METHODS reads them."""

import numpy as np
import pytest

from memorisk.runs.errors import InputError
from memorisk.training.engine.data import build_targets

CHEST = ["Effusion|Mass", "Mass", "Nodule", "Mass|Effusion"]


def test_single() -> None:
    targets = build_targets(["b", "a", "c", "a"])
    assert targets.classes == ("a", "b", "c")
    assert targets.values.dtype == np.int64
    assert targets.values.tolist() == [1, 0, 2, 0]
    assert targets.n_outputs == 3


def test_single_takes_the_label_as_it_stands() -> None:
    assert build_targets(CHEST).classes == ("Effusion|Mass", "Mass", "Mass|Effusion", "Nodule")


def test_first_listed() -> None:
    targets = build_targets(CHEST, "first")
    assert [targets.classes[v] for v in targets.values] == ["Effusion", "Mass", "Nodule", "Mass"]


def test_multi() -> None:
    targets = build_targets([*CHEST, ""], "multi")
    assert targets.classes == ("Effusion", "Mass", "Nodule")
    assert targets.values.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0]]
    assert targets.values.dtype == np.float32


def test_binary() -> None:
    targets = build_targets(["well", "ill", "well"], "binary")
    assert targets.classes == ("ill", "well")
    assert targets.values.tolist() == [1, 0, 1]
    assert targets.n_outputs == 1


def test_classes_of_a_larger_set_are_kept() -> None:
    targets = build_targets(["b", "b", "d"], classes=["d", "b", "a"])
    assert targets.values.tolist() == [1, 1, 0]
    assert targets.n_outputs == 3


@pytest.mark.parametrize(
    ("labels", "head", "classes", "said"),
    [
        (["a", ""], "single", None, "1 images have no label .the first is row 1."),
        (["|", "a|b"], "first", None, "have no label"),
        (["a", "a"], "single", None, "same label .a."),
        (["a", "b", "c"], "binary", None, "exactly two classes, there are 3"),
        (["", ""], "multi", None, "no image has a label"),
        (["melanoma", "nevus"], "single", ["melanom", "nevus"], "Did you mean 'melanom'"),
        (["a", "b"], "single", ["a", "b", "a"], "named twice"),
        (["a", "b"], "singel", None, "Did you mean 'single'"),
    ],
)
def test_refusals(labels: list[str], head: str, classes: list[str] | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build_targets(labels, head, classes=classes)
