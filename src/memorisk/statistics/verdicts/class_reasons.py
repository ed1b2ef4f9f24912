"""Reasons about classes and their groups, for `verdict.decide`."""

import math
from collections.abc import Mapping

from memorisk.runs.errors import one_line
from memorisk.statistics.intervals.means import MIN_SEEDS
from memorisk.statistics.verdicts.levels import PASS_POWER, POWER, VERDICT_LEVEL, share_words
from memorisk.statistics.verdicts.noticeable_gap import EVERY, GAPS, MAX_SEEDS, MIN_ROOM
from memorisk.statistics.verdicts.reasons import FAIL, LIMIT, SUPPORT, ClassReason, Reason, Words
from memorisk.statistics.verdicts.remedies import Remedy, Way
from memorisk.statistics.verdicts.tiers import MIN_GROUPS, format_against_gates
from memorisk.statistics.verdicts.units import UnitNames

MANY_FLAGGED = round(1 / VERDICT_LEVEL)
"""Number of listed groups from which more models would change little: for each that chance explains, nine are
memorized."""
MOST_MODELS = 2 * MAX_SEEDS
"""Largest number of models that is advised, and that an audit takes by default: four times the fewest, and so four
times their time."""


def models_remedy(needed: float, label: str = "") -> Remedy:
    """Make the remedy of more models, of which `MOST_MODELS` are the most that is advised.

    Args:
        needed: Number of models; infinite where none suffices, NaN where it is not known.
        label: Class that needs them.
    """
    return Remedy(way=Way.MODELS, needed=needed, most=MOST_MODELS, label=label)


class ClassFails(ClassReason, code="class-fails", bears_on=FAIL):
    """Class with flagged groups, or with a mean M above the gate."""

    low: float = math.nan
    """Lower limit of the mean M where it lies in the gate's tier or above; NaN where it does not."""
    gate: str
    n_flagged: int

    @property
    def severity(self) -> tuple[float, int]:
        """Place in the order of severity: the furthest above the gate first, then the most flagged."""
        return math.inf if math.isnan(self.low) else -self.low, -self.n_flagged

    def _joined(self, mean: str, flagged: str) -> str:
        parts = ([] if math.isnan(self.low) else [mean]) + ([flagged] if self.n_flagged else [])
        return ", and ".join(parts)

    @Words
    def text(self) -> str:
        gate = self.units.loss_scale.gates[self.gate]
        where = f"above {gate}" if self.gate == "high" else f"at or above {gate}"
        limit = format_against_gates(self.low, gate, digits=3, kind="g")
        mean = f"its mean gap M is {where} {self.units.loss_unit}, by the lower limit of its interval, {limit}"
        flagged = f"{self.units.count(self.n_flagged)} {'is' if self.n_flagged == 1 else 'are'} flagged"
        return f"{self.of_class}: {self._joined(mean, flagged)}"

    @Words
    def plain(self) -> str:
        mean = f"training on an image changes {self.units.change} far more than is allowed, on average"
        stand = "stands" if self.n_flagged == 1 else "stand"
        return f"{self.of_class}: {self._joined(mean, f'{self.units.count(self.n_flagged)} {stand} out')}"


class FlaggedByChance(Reason, code="flagged-by-chance", bears_on=LIMIT):
    """Share of the flagged groups that chance explains, and what tells chance from memorization."""

    n_flagged: int
    text = Words(
        f"at most {100 * VERDICT_LEVEL:.0f} % of the flagged {{many}} are expected to be so by chance, and where no "
        f"{{one}} is remembered at most {100 * VERDICT_LEVEL:.0f} % of audits flag any"
    )
    plain = Words(f"of those that are flagged, up to {100 * VERDICT_LEVEL:.0f} in 100 do so by chance")

    @Words
    def remedy(self) -> str:
        if self.n_flagged < MANY_FLAGGED:
            return "more models, which tell chance from memorization"
        return f"leave the flagged {self.units.many} out, {self.units.loss_scale.mending}"


class NoClass(Reason, code="no-class"):
    """Audit without a class."""

    text = plain = Words("no class was audited")
    remedy = Words("a class with enough images to be split")


class FewSeeds(Reason, code="few-seeds"):
    """Audit of fewer seeds than tell a training's memory from its noise."""

    n_seeds: int
    text = Words("{n_seeds:seed|seeds}: too few to tell what a training remembers from how any two trainings differ")
    plain = Words("too few models were trained to tell what a training remembers from how any two trainings differ")

    @property
    def plan_remedy(self) -> str:
        """Remedy of an audit that is planned."""
        return f"at least {MIN_SEEDS} seeds (--models {2 * MIN_SEEDS})"


class InsufficientEvidence(ClassReason, code="insufficient-evidence"):
    """Class with too few scored groups for an interval that covers."""

    n_scored: int | None
    text = Words(f"{{of_class}}: insufficient evidence ({{counted}} scored {{many}}, {MIN_GROUPS} needed)")
    plain = Words(f"{{of_class}} has too few {{many}} to be judged: fewer than {MIN_GROUPS}")

    @property
    def counted(self) -> str:
        """Number of scored groups in words."""
        return "too few" if self.n_scored is None else str(self.n_scored)


class NoMeanInterval(ClassReason, code="no-mean-interval"):
    """Class whose mean M has no interval."""

    text = Words("{of_class}: its mean gap M has no interval")
    plain = Words("{of_class}: how surely the average was measured is not known")
    remedy = Words("{of_class}: more images of it, or more seeds")


class GateInInterval(ClassReason, code="gate-in-interval"):
    """Class whose interval of the mean M contains the gate."""

    low: float
    high: float
    gate: str
    plain = Words("{of_class}: whether its images are remembered on average was measured too roughly to decide")

    @Words
    def text(self) -> str:
        gate = self.units.loss_scale.gates[self.gate]
        limits = " to ".join(format_against_gates(limit, gate, digits=3, kind="g") for limit in (self.low, self.high))
        return f"{self.of_class}: the interval of its mean gap M, {limits} {self.units.loss_unit}, contains {gate}"


class MeanBelowZero(ClassReason, code="mean-below-zero"):
    """Class whose models are worse on what they were trained on."""

    low: float
    high: float
    text = Words(
        "{of_class}: its mean gap M is surely below 0 ({low:.3g} to {high:.3g} {loss_unit}): the models that "
        "were trained on an image {verb} it worse, which no training does"
    )
    plain = Words(
        "{of_class}: models {verb} the images they were trained on worse than others, which no training does, so that "
        "the records of who was trained on what may be wrong"
    )
    remedy = Words("{of_class}: a check of who was trained on what (members and others may be exchanged)")


class NotTestable(ClassReason, code="class-not-testable"):
    """Class for which no list was possible."""

    blocked_by: str
    """Reason why no list was possible, in words; empty where it is not known."""
    text = Words("{of_class} cannot be tested: {because}")
    plain = Words("{of_class} could not be tested, so that a single {one} in it could go unnoticed")

    @property
    def because(self) -> str:
        """Reason in words."""
        return one_line(self.blocked_by) if self.blocked_by else f"no list of {self.units.many} was possible"

    @Words
    def remedy(self) -> str:
        return self.ways_in_words or f"{self.of_class}: {self.units.many} of it in the test part, from one random split"


class NoRoom(ClassReason, code="no-room-on-list"):
    """Class whose models are too few to flag a single group."""

    room: float
    n_compared: int | None
    """Number of groups scored or in the test part."""
    plain = Words(
        "{of_class}: too few models were trained for a single {one} to be flagged there, even if strongly remembered"
    )

    @Words
    def text(self) -> str:
        n, units = self.n_compared, self.units
        compared = "" if n is None else f", with {units.count(n)} scored or in the test part,"
        return (
            f"{self.of_class}: the models{compared} are too few to flag a single {units.one}, even a strongly "
            f"remembered one (room on the list {format_against_gates(self.room, MIN_ROOM, kind='g')}, {MIN_ROOM:.0f} "
            "needed)"
        )


class LittleNoticed(ClassReason, code="little-noticed"):
    """Class in which a single remembered group could go unnoticed."""

    gap: float
    """Gap that is noticed with probability `POWER`; infinite where no gap is."""
    notice: float
    """Gap that a pass must notice."""
    power: float
    """Probability of noticing that gap in the stratum where it is smallest; NaN where it is not known."""
    stratum: str = EVERY
    plain = Words("{of_class}: a single {one} that the model remembers could go unnoticed")

    @Words
    def text(self) -> str:
        gap, notice, one, scale = self.gap, self.notice, self.units.one, self.units.loss_scale
        among = f", {words}" if (words := stratum_words(self.stratum, self.units)) else ""
        if math.isinf(gap):
            return (
                f"{self.of_class}{among}: no gap of a single {one} up to {scale.amount(f'{GAPS[-1]:.0f}')} would have "
                f"been noticed in {share_words(POWER)}"
            )
        if gap > notice:
            return (
                f"{self.of_class}{among}: a single {one} would have been noticed in {share_words(POWER)} only with a "
                f"gap of at least {scale.amount(format_against_gates(gap, notice, kind='g'))}; a pass needs {notice:g}"
            )
        return (
            f"{self.of_class}: a single {one} with a gap of {scale.amount(f'{notice:g}')} would have been noticed in "
            f"{0 if math.isnan(self.power) else int(100 * self.power)} of 100 cases (among the {self.units.many} of "
            f"whom least is noticed), and a pass needs {100 * PASS_POWER:.0f}"
        )


class NoneFlagged(Reason, code="none-flagged", bears_on=SUPPORT):
    """Pass: the verdict's list is empty."""

    text = Words("no {one} is flagged")
    plain = Words("no {one} is conspicuous")


class PowerOfPass(Reason, code="power-of-pass", bears_on=SUPPORT):
    """Pass: what the audit would have noticed of a single group."""

    label: str
    gap: float
    simulated: tuple[float, float, float] | None
    """Power at the gap, with its lower and upper limit."""
    stratum: str
    strata: Mapping[str, float]
    plain = Words(
        f"a single {{one}} for which training made a large difference would have been noticed in {share_words(POWER)}"
    )

    @Words
    def text(self) -> str:
        label = one_line(self.label, 80)
        return power_sentence(self.gap, self.simulated, self.units, label, self.stratum, self.strata)


class MeansBelowGate(Reason, code="means-below-gate", bears_on=SUPPORT):
    """Pass: every class's mean M lies below the gate."""

    gate: float
    text = Words("the mean gap M of every class is below {gate} {loss_unit}, by the upper limit of its interval")
    plain = Words("in no class are images remembered on average")


def stratum_words(stratum: str, units: UnitNames) -> str:
    """Name the patients of a stratum in a sentence; empty for all of them, and for an unknown one."""
    return {
        "one": f"{units.many} with one image",
        "few": f"{units.many} with 2 to 9 images",
        "many": f"{units.many} with 10 or more images",
        "noisiest": f"the tenth of the {units.many} with the noisiest gaps",
    }.get(stratum, "")


def power_sentence(
    gap: float,
    simulated: tuple[float, float, float] | None,
    units: UnitNames,
    label: str,
    stratum: str = EVERY,
    strata: Mapping[str, float] | None = None,
) -> str:
    """Say in one sentence what the audit would have noticed of one patient; on the first screen of every report.

    Args:
        gap: Noticeable gap; NaN or infinite where no gap is surely noticed.
        simulated: Power at the gap with its lower and upper limit, where known.
        units: Names of a group, and the scale of losses.
        label: The class in which least is noticed, as it may be shown.
        stratum: Patients of this class among which least is noticed.
        strata: Gap of each stratum, where known.
    """
    among, scale = f", {words}" if (words := stratum_words(stratum, units)) else "", units.loss_scale
    if not math.isfinite(gap):
        return f"in class {label}{among} a single {units.one} can go unnoticed, even if strongly remembered"
    limits = ""
    if simulated is not None:
        cases, low, high = (f"{100 * share:.0f}" for share in simulated)
        limits = f"; simulated: {cases} of 100, {low} to {high}"
    return (
        f"a single {units.one} with a gap of {scale.amount(f'{gap:.2g}')} or more would have been noticed in at least "
        f"{share_words(POWER)} (class {label}{among}, where least is noticed{limits}). At {scale.amount(f'{gap:.2g}')} "
        f"{scale.effect(gap)}. Smaller gaps may be missed, and gaps that few of the trainings share"
        f"{_by_stratum(strata or {}, units)}"
    )


def _by_stratum(strata: Mapping[str, float], units: UnitNames) -> str:
    """List from which gap on the patients of each stratum are noticed; empty where there is only one gap."""
    parts = [
        f"{words} from {gap:.2g} {units.loss_unit}" if math.isfinite(gap) else f"{words} at no gap"
        for stratum, gap in strata.items()
        if (words := stratum_words(stratum, units))
    ]
    return f". By {units.one}: {', '.join(parts)}" if parts else ""
