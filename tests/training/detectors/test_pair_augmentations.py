"""What stage 2 of LCMem sees, and the mild copies of stage 1."""

import torch

from memorisk.images.alterations.graded import to_unit
from memorisk.training.detectors.lcmem.augmentations import MildAugmentation, PairAugmentation
from tests.images.alterations.test_graded import pictures


def test_stage_two_draws_from_its_generator_alone() -> None:
    x, how = to_unit(pictures(n=40)), PairAugmentation()
    torch.manual_seed(0)
    first = how.apply(x, torch.Generator().manual_seed(1))
    torch.manual_seed(1)
    torch.testing.assert_close(first, how.apply(x, torch.Generator().manual_seed(1)), rtol=0, atol=0)
    assert not torch.equal(first, how.apply(x, torch.Generator().manual_seed(2)))
    changed = (first - x).abs().amax(dim=(1, 2, 3)) > 0
    assert changed.float().mean() > 0.9
    assert first.min() >= 0
    assert first.max() <= 1


def test_no_probability_changes_nothing() -> None:
    x = to_unit(pictures())
    assert torch.equal(PairAugmentation(probability=0).apply(x, torch.Generator().manual_seed(1)), x)


def test_a_mild_copy_is_nearer_than_a_strong_one() -> None:
    x = to_unit(pictures(n=40))
    mild, strong = (how.apply(x, torch.Generator().manual_seed(1)) for how in (MildAugmentation(), PairAugmentation()))
    assert 0 < (mild - x).abs().mean() < (strong - x).abs().mean()
