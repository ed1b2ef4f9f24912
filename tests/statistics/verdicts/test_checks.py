"""Checks as data: draws of halves, exchanged roles, and what a doubt does to a verdict."""

import numpy as np
import pytest

from memorisk.statistics.verdicts.check_reasons import check_reasons
from memorisk.statistics.verdicts.checks import COULD_NOT_LOOK, NOTHING, NOTICED, Check
from memorisk.statistics.verdicts.independent_draws import exchanged_roles, independent_draws
from memorisk.statistics.verdicts.loss_ceiling import losses_at_ceiling
from memorisk.statistics.verdicts.reasons import DOUBT
from memorisk.statistics.verdicts.units import GROUP_NAMES
from memorisk.statistics.verdicts.verdict import decide

SEEDS, GROUPS = 8, 200
NUMBERS = {
    **{f"{part}_{what}": 2.0 for part in ("half", "quarter") for what in ("gap", "seeds", "cases", "needed")},
    "n_seeds": 8.0,
}
FAILING = {
    "label": ["a"], "low": [0.4], "high": [0.6], "tier": ["HIGH"], "flagged": [3], "room": [9.0],
    "noticeable_gap": [1.0], "notice_power": [1.0],
}  # fmt: skip


def halves(seed: int, n_groups: int = GROUPS) -> np.ndarray:
    """Fresh halves in each seed, of pairs of neighbours that stay partners."""
    coins = np.random.default_rng(seed).choice([-1, 1], (SEEDS, n_groups // 2))
    return np.stack([coins, -coins], axis=-1).reshape(SEEDS, -1)


def test_fresh_halves_are_independent_whatever_the_pairs() -> None:
    assert all(independent_draws(halves(seed), np.arange(GROUPS)).n_draws == SEEDS for seed in range(100))


@pytest.mark.parametrize(
    ("returning", "n_draws"),
    [([0] * 8, 1), ([0, 1] * 4, 2), ([0, 0, 1, 1, 2, 2, 3, 3], 4), ([0, 1, 2, 3, 4, 5, 6, 6], 7)],
)
def test_halves_that_return_are_seen(returning: list[int], n_draws: int) -> None:
    sign = halves(1)[returning]
    sign[1] *= -1  # the same halves, models A and B exchanged
    draws = independent_draws(sign, np.arange(GROUPS))
    assert (draws.n_draws, len(draws.shared)) == (n_draws, sum(returning.count(i) > 1 for i in returning))


def test_few_groups_cannot_show_returning_halves() -> None:
    sign = halves(1, 20)[[0] * 8]
    draws = independent_draws(sign, np.arange(20))
    assert draws.n_groups < draws.n_needed
    enough = independent_draws(halves(1, draws.n_needed)[[0] * 8], np.arange(draws.n_needed))
    assert enough.n_draws == 1


def test_losses_that_end_at_a_ceiling_are_a_doubt() -> None:
    rng = np.random.default_rng(3)
    losses = rng.gamma(2.0, 0.4, (16, 300))
    assert not losses_at_ceiling(losses).any()
    losses[5, 0] = 30.0
    losses[:, 1] = losses[:, 0]  # one image under two names
    assert not losses_at_ceiling(losses).any()
    own = np.minimum(losses, np.quantile(losses, 0.98, axis=1, keepdims=True))  # each model has a ceiling of its own
    np.testing.assert_array_equal(losses_at_ceiling(own), own == own.max(axis=1, keepdims=True))
    clipped = losses.clip(max=np.quantile(losses, 0.999))
    np.testing.assert_array_equal(losses_at_ceiling(clipped), losses >= clipped.max())
    label = np.repeat(["a", "b"], 150)
    of_class = losses.copy()
    of_class[:, :150] = of_class[:, :150].clip(max=np.quantile(of_class[:, :150], 0.995))  # class b has larger losses
    np.testing.assert_array_equal(losses_at_ceiling(of_class, label), of_class == of_class[:, :150].max())
    below = losses.clip(max=np.quantile(losses, 0.99))
    top = below.max()
    below[3, 7] = 40.0  # one larger loss from elsewhere
    np.testing.assert_array_equal(losses_at_ceiling(below), below == top)
    for decimals in (2, 3):
        assert not losses_at_ceiling(rng.gamma(2.0, 0.4, (16, 300)).round(decimals)).any()
    check = Check(
        name="clipped-losses", outcome=COULD_NOT_LOOK, reason="losses-at-ceiling",
        numbers={"n_groups": 3.0, "ceiling": 16.118},
    )  # fmt: skip
    (reason,) = check_reasons([check], GROUP_NAMES)
    assert reason.bears_on == DOUBT
    assert reason.text == (
        "losses end at a ceiling (16.12 nats at most), which several models or images share to the last digit: the gap "
        "of 3 groups with a loss there is not known"
    )


def test_exchanged_roles_are_seen_in_their_seeds() -> None:
    rng, sign = np.random.default_rng(0), halves(2)
    noise = 0.1 * rng.standard_t(3, sign.shape)
    assert (exchanged_roles(noise, sign, np.arange(GROUPS)) > 0.01).all()
    remembered = noise + 0.1 * sign
    table = np.where(np.isin(np.arange(SEEDS), [2, 5])[:, None], -sign, sign)
    assert np.flatnonzero(exchanged_roles(remembered, table, np.arange(GROUPS)) <= 0.01).tolist() == [2, 5]


def test_a_check_that_voids_leaves_nothing_to_fail_or_pass() -> None:
    check = Check(name="any", outcome=NOTICED, reason="shared-halves", numbers={"n_draws": 2, "n_seeds": 8}, voids=True)
    assert decide(FAILING, findings=check_reasons([check], GROUP_NAMES)).status == "undecided"


def test_a_check_that_noticed_something_or_could_not_look_is_a_doubt() -> None:
    for outcome in (NOTICED, COULD_NOT_LOOK):
        check = Check(name="any", outcome=outcome, reason="tied-losses", label="c0", seeds=(3, 5))
        (doubt,) = check_reasons([check, Check(name="other", outcome=NOTHING)], GROUP_NAMES)
        assert (doubt.code, doubt.bears_on, doubt.gravity) == ("tied-losses", "doubt", "first")
        assert doubt.text.startswith("class c0: ")
        assert decide(FAILING, findings=[doubt]).status == "fail"


def test_classes_that_could_not_be_looked_at_share_one_doubt() -> None:
    blind = [
        Check(name="uneven-gaps", outcome=COULD_NOT_LOOK, reason="little-power", label=label, power=power,
              numbers=NUMBERS)
        for label, power in (("a", 0.7), ("b", 0.1), ("c", 0.5))
    ]  # fmt: skip
    (doubt,) = check_reasons(blind, GROUP_NAMES)
    assert doubt.text.startswith("3 classes, least in class b: ")
    assert "class" not in doubt.remedy
    few = Check(name="other", outcome=COULD_NOT_LOOK, reason="few-patients")
    assert len(check_reasons([*blind, few], GROUP_NAMES)) == 2
