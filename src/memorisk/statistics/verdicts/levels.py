"""Numbers at which verdicts on people are decided: levels, powers and gates (METHODS section 6).

A verdict of another kind of audit reads the same number where it means the same. Nothing here is measured on data; a
threshold that depends on the data at hand is computed where the data are. Elsewhere are only the sizes of mean M that
``--fail-on`` names (`tiers`). Who changes a number raises `verdict_form` of the kinds in `report.kinds`, so that saved
verdicts by the old rule are refused. Sentences word these numbers with `share_words`.
"""

from fractions import Fraction
from typing import Final

VERDICT_LEVEL: Final = 0.1
"""False discovery rate of the list of people that a verdict rests on, whatever level the list of the report has: at
most this share of audits in which nothing is memorized lists anyone."""
VERDICT_CORRECTION: Final = "bh"
"""Correction of that list for several classes (`multiple_testing.families`)."""

POWER: Final = 0.8
"""Probability with which a noticeable gap, or a noticeable mark, is found."""
PASS_POWER: Final = 0.9
"""Probability with which a pass must notice a patient of the gap `NOTICE`, in each stratum of `noticeable_gap`.

METHODS requires 0.8, which lets one in five of them pass wherever the noticeable gap comes out just below `NOTICE`.
Simulated with a tenth of the patients four times as noisy, one of these at 2 nats passes 3.0 and 4.0 % of audits with
16 and 24 models (upper limits 6.4 and 7.7), here 0 and 1.0 % (1.8 and 3.6) (`recipes/verdict_truth.py`)."""
NOTICE: Final = 2.0
"""Gap in nats that a pass must notice: such a patient is answered with seven times the probability of an unseen one.
Other losses have their own (`scales`)."""

RECALL: Final = 0.8
"""Probability with which a pass of a generated set must detect one copy of any planted kind (default of ``--recall``).
"""

ATTACK_GATE: Final = 0.6
"""AUC of an attack from which an audit fails: of a member and another, the attack orders six pairs in ten right."""
SURE_RATE: Final = 0.05
"""Share of the members that must surely be exceeded at 1 % false positives to fail: five times that of guessing."""
ATTACK_LEVEL: Final = 0.025
"""One-sided level of all failures by attacks together, and of a pass: one side of a 95 % interval."""

PREREQUISITE_LEVEL: Final = 0.01
"""Share of sound audits in which one prerequisite may be doubted: that test patients represent unseen ones, that halves
were drawn anew, that roles are true, that numbers of images are alike, that training and held-out images are a random
split."""
IGNORED_LEVEL: Final = 0.01
"""Share of training functions that ignore their images of which this may go unnoticed."""
ORDER_LEVEL: Final = 0.01
"""Probability of refusing an order of a model's outputs, or of taking it for better than guessing, by chance alone."""

MARK_LEVEL: Final = 0.05
"""Share of models without the mark that may fail an audit of it (default of ``--level`` of `audit feature`)."""
MARK_GATE: Final = 2.0
"""Factor of sensitivity to a mark that a pass must be able to find (default of ``--gate`` of `audit feature`)."""

SUBGROUP_LEVEL: Final = 0.05
"""Share of audits in which any level of a column may be called more exposed than the others by chance alone."""

PATIENT_LEVEL: Final = 0.05
"""Largest p at which a single patient, the subject of a question, shows signs of being remembered."""

AHEAD_LEVEL: Final = 0.05
"""Largest p at which the training patients nearer than every held-out one are too many for chance."""
SINGLED_OUT_LEVEL: Final = 0.05
"""Share of sets without copies that may have any patient singled out."""
NEAR_LEVEL: Final = 0.01
"""Largest p at which the patients with a nearly identical synthetic image, who are also compared with held-out ones,
are too many for chance."""
NEAR_DOUBT_LEVEL: Final = 0.05
"""Largest p at which these patients are a doubt; without such held-out patients they are one at any p."""

_MOST_IN_WORDS = 20  # a larger denominator is harder to picture than a percentage
_NUMERALS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def share_words(share: float, of: str = "cases") -> str:
    """Word a share as a count of few, or as a percentage where no small count is equal to it.

    Args:
        share: Share between 0 and 1.
        of: Name of what is counted, in the plural.

    Example:
        >>> share_words(0.8), share_words(0.05, "audits"), share_words(0.87)
        ('four of five cases', 'one of 20 audits', '87 % of cases')
    """
    near = Fraction(share).limit_denominator(_MOST_IN_WORDS)
    if not 0 < near < 1 or abs(near - Fraction(share)) > 1e-9:
        return f"{100 * share:g} % of {of}"
    part, whole = (_NUMERALS[n] if n < len(_NUMERALS) else str(n) for n in near.as_integer_ratio())
    return f"{part} of {whole} {of}"
