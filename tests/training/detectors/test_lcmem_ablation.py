"""Table 4 of paper 004 as a recipe: each row's settings can be had, and say what the paper's row says."""

import importlib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from memorisk.training.detectors.lcmem.augmentations import OPERATIONS, operations_of
from memorisk.training.detectors.options import LatentOptions

FILE = Path(__file__).parents[3] / "recipes" / "lcmem_ablation.py"


@pytest.fixture(scope="module")
def recipe() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FILE.parent)
        yield importlib.import_module(FILE.stem)


def test_each_row_is_the_papers(recipe: ModuleType) -> None:
    found = [LatentOptions(**recipe.settings_of(name, encoder="autoencoder:here")).filled() for name in recipe.ROWS]
    assert {f.name for f in fields(LatentOptions)} >= {key for row in recipe.ROWS.values() for key in row}
    assert [one.backbone for one in found] == ["resnet101@none"] * 2 + ["convnext_tiny@none"] * 8
    assert [one.bce_share for one in found] == [1, 1, 1, 1, 1, 1, 0.8, 0.5, 0.8, 0.8]  # alpha
    assert [one.encoder for one in found] == ["pixels"] + ["autoencoder:here"] * 9  # latent
    assert [one.stages for one in found] == [1] * 9 + [2]
    assert [one.sample_normalisation for one in found] == [0, 0, 0, 0.01, 0.01, 0, 0, 0, 0.01, 0.01]  # SWN
    augmented = [() if one.stage1_augment == "none" else operations_of(one.stage1_augment) for one in found]
    assert augmented[3:6] == [("rotate", "flip", "blur", "noise"), ("blur", "noise"), ("noise",)]
    assert not any(augmented[:3] + augmented[6:])
    assert operations_of("jpeg, rotate,flip,blur,noise,brightness,contrast") == OPERATIONS  # stage 2's, of the last row
