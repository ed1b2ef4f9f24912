"""Scales of losses: what a gap counts, and the limits and words of a verdict that depend on it.

A classifier's loss is the cross-entropy of its answer, so that a gap counts nats. A generator gives no answer. Its loss
is an error of denoising, scaled so that a gap counts standard deviations of the gaps of unseen images, SD
(`scores.noise_errors`). Saved numbers hold the name of their scale; everything else is read from `SCALES`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

from memorisk.runs.errors import unknown_name
from memorisk.statistics.verdicts.levels import ATTACK_GATE, NOTICE


@dataclass(frozen=True, kw_only=True)
class LossScale:
    """Scale of losses and of their gaps, with what a verdict and its sentences make of it."""

    name: str
    """Name of the scale in saved numbers."""
    unit: str
    """Unit as it follows a number."""
    model: str
    """Kind of the audited models."""
    of_answers: bool
    """Whether a loss is that of an answer, which can be right or wrong: it then has an accuracy and a margin."""
    unit_of_run: bool
    """Whether the unit is a run's own, measured on its own unseen images: numbers of two runs do not subtract."""
    gates: dict[str, float]
    """Mean M of each gate of `--fail-on`: the tier HIGH lies above "high", MODERATE begins at "moderate"."""
    notice: float
    """Gap of a single patient that a pass must notice."""
    rmia_offline_a: float
    """Share a of offline RMIA (`scores.rmia`): the authors' for probabilities of an answer. Other losses are far from
    logarithms of probabilities, where any a below 1 makes the references a constant."""
    noise: float
    """Median size of the noise of trainings that plans assume, per image (`audits.classifier.planning.rehearsal`)."""
    spread: float
    """Deviation of the logarithm of that size over images."""
    tails: float
    """Degrees of freedom of its t distribution."""
    outputs: str
    """Name of what the models give for an image, from which attackers tell."""
    change: str
    """Object that training on an image changes, in a sentence."""
    verb: str
    """Verb for what the models do with an image."""
    size: Callable[[float], str]
    """Function that words the size of a gap in place of its unit."""
    of_image: str
    """Effect of a gap on one image, a clause around the words of `size`."""
    of_person: str
    """Effect of a gap on the images of one person."""
    mending: str
    """Ways to train a model that remembers less, in a sentence after that of leaving people out."""

    @property
    def high(self) -> float:
        """Return the mean M above which a class is HIGH."""
        return self.gates["high"]

    @property
    def moderate(self) -> float:
        """Return the smallest mean M that is MODERATE."""
        return self.gates["moderate"]

    def amount(self, gap: str) -> str:
        """Word a gap with its unit.

        Args:
            gap: Gap as it is written.

        Example:
            >>> CROSS_ENTROPY.amount("1"), CROSS_ENTROPY.amount("1.5"), NOISE_ERROR.amount("1")
            ('1 nat', '1.5 nats', '1 SD')
        """
        return f"{gap} {self.unit.removesuffix('s') if gap == '1' else self.unit}"

    def effect(self, gap: float) -> str:
        """Word what a gap means for an image, without the unit.

        Args:
            gap: Gap in the unit of the scale.

        Example:
            >>> CROSS_ENTROPY.effect(2.0)
            'training on an image makes its right answer 7.4 times as probable'
            >>> NOISE_ERROR.effect(2.0)
            'a comparison with one further model tells the image from a new one in 92 of 100 cases'
        """
        return self.of_image.format(self.size(gap))

    def effect_on_person(self, gap: float) -> str:
        """Word what a gap means for the images of one person, without the unit.

        Args:
            gap: Gap in the unit of the scale.
        """
        return self.of_person.format(self.size(gap))


def times_as_probable(gap: float) -> str:
    """Say how many times as probable a gap makes the right answer, exp(gap).

    Args:
        gap: Gap in nats.

    Example:
        >>> times_as_probable(2.0), times_as_probable(2.8)
        ('7.4 times as probable', '16 times as probable')
    """
    times = math.exp(gap)
    return f"{times:{',.0f' if times >= 10 else '.2g'}} times as probable"


def cases_told_apart(gap: float) -> str:
    """Say how often the larger gap is that of a training image, of one and a new one: Phi(gap / sqrt 2).

    Gaps are taken for normally distributed, with the same spread for both; more than 99 is written as 99.

    Args:
        gap: Mean gap of the training image in standard deviations of the gaps of unseen images.

    Example:
        >>> cases_told_apart(0.0), cases_told_apart(2.0), cases_told_apart(9.0)
        ('50 of 100 cases', '92 of 100 cases', '99 of 100 cases')
    """
    return f"{min(99.0, 100 * NormalDist().cdf(gap / math.sqrt(2))):.0f} of 100 cases"


CROSS_ENTROPY = LossScale(
    name="nats",
    unit="nats",
    model="classifier",
    of_answers=True,
    unit_of_run=False,
    gates={"high": 0.3, "moderate": 0.1},
    notice=NOTICE,
    rmia_offline_a=0.3,
    noise=0.1,
    spread=0.7,
    tails=3.0,
    outputs="answers",
    change="the model's answer to it",
    verb="answer",
    size=times_as_probable,
    of_image="training on an image makes its right answer {}",
    of_person="training on their images makes the right answer on these {}",
    mending="mend their labels, or train with a defence (docs/defences.md)",
)
"""Cross-entropy of the true label, in nats; the tiers are those of paper 000."""

_SPREAD, _TAILS = 0.5, 6.0  # wider than on digits: 0.32 and normal tails (docs/results/generator_null.md)
_HIGH = round(math.sqrt(2) * NormalDist().inv_cdf(ATTACK_GATE), 3)  # rounded, so that a gate is what a reader sees

NOISE_ERROR = LossScale(
    name="spreads",
    unit="SD",
    model="generator",
    of_answers=False,
    unit_of_run=True,
    gates={"high": _HIGH, "moderate": round(_HIGH * CROSS_ENTROPY.moderate / CROSS_ENTROPY.high, 3)},
    notice=2.0,
    rmia_offline_a=1.0,
    noise=1 / (math.sqrt(_TAILS / (_TAILS - 2)) * math.exp(_SPREAD**2)),
    spread=_SPREAD,
    tails=_TAILS,
    outputs="errors",
    change="the model's error on it",
    verb="reconstruct",
    size=cases_told_apart,
    of_image="a comparison with one further model tells the image from a new one in {}",
    of_person="a comparison with one further model tells their images from new ones in {}",
    mending="remove duplicates (memorisk images check), or train with fewer steps or parameters; audit generator "
    "--dose shows what repetition does",
)
"""Error of denoising, in standard deviations of the gaps of unseen images (SD).

HIGH begins where a comparison with one twin reaches the AUC of the attack gate under normal gaps, AUC = Phi(g / sqrt
2); MODERATE lies below it as in `CROSS_ENTROPY`. A gap of g SD is evidence of g^2 / 2 nats on average: the 2 SD that a
pass must notice make a member seven times as probable as another, as 2 nats do of a classifier. The noise is such that
all gaps of unseen images together have the standard deviation 1."""

SCALES: Mapping[str, LossScale] = {scale.name: scale for scale in (CROSS_ENTROPY, NOISE_ERROR)}
"""Scales by name."""


def find_scale(name: str) -> LossScale:
    """Return a scale by its name in saved numbers.

    Raises:
        InputError: Unknown scale.

    Example:
        >>> find_scale("spreads").unit
        'SD'
    """
    if name not in SCALES:
        raise unknown_name("scale of losses", name, SCALES)
    return SCALES[name]
