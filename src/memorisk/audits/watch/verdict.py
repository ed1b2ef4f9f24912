"""What may be said of a training after its looks: the rule's word, and that there was none where none could speak.

A rule that cannot stop a training (``never``, or one that needs more held-out patients) tests nothing: that it did not
stop says nothing of memorization. A look whose own interval lies above the nominal rate, or that lists patients,
is told all the same; that look's error is not shared with the others.
"""

from typing import TYPE_CHECKING

from memorisk.audits.watch.deciding import hardly_possible, held_out_needed
from memorisk.audits.watch.looks import Look
from memorisk.report.blocks import Kind
from memorisk.report.formats import count, percent
from memorisk.runs.errors import several

if TYPE_CHECKING:  # which writes the page
    from memorisk.audits.watch.watching import MemorizationWatch

RULES = {
    "share": "the lower limit of the memorized share, with this look's part of the error, is above the nominal rate",
    "test": "the exact p-value of the memorized share is at most this look's part of the error",
    "listed": "a patient is listed with this look's part of the error as the level of the list",
    "never": "nothing: looks are noted only",
}
_NO_PROOF = "That is no proof that nothing is memorized: a look is an audit of few images."
_EARLIER = (
    "Earlier steps may have memorized as well: memorization grows and is shown late. What any of them draws needs an "
    "audit of its own before it is released."
)
_UNTESTED = "Nothing was tested, and nothing could have stopped the training: that it went on says nothing."
_BY_ITSELF = "By itself, and without regard to other looks, that speaks for memorization."


def can_stop(watch: "MemorizationWatch") -> bool:
    """Whether the rule can speak at all: it is one, and there are the held-out patients that it needs."""
    return watch.options.stop_on != "never" and watch.real.n_held >= held_out_needed(watch.options, watch.shared)


def verdict_of(watch: "MemorizationWatch") -> tuple[Kind, str, str]:
    """Kind, headline and a sentence or two.

    Args:
        watch: With a look at least.
    """
    looks, stop, n_held = watch.looks, watch.stopped_at, watch.real.n_held
    if stop is not None:
        return (
            "fail",
            f"Memorization was shown at step {stop.step:,}; earlier steps are not cleared",
            f"At step {stop.step:,} {RULES[watch.options.stop_on]}. A generator that memorizes nothing comes to this "
            f"at any look of its training with a probability of at most {watch.options.error:.0%}. {watch.rule} "
            f"{_EARLIER}",
        )
    told = next((look for look in looks if look.exceeded), looks[-1])
    if not can_stop(watch):
        title = "No rule could stop it: looks were only noted"
        if _speaks(told):
            return ("warning", f"{title}, and step {told.step:,} speaks for memorization",
                    f"{_seen(told, watch)}. {_BY_ITSELF} {watch.rule} {_UNTESTED}")  # fmt: skip
        return "note", title, f"{_seen(told, watch)}. {watch.rule} {_UNTESTED}"
    if _speaks(told):
        return ("warning", f"The rule did not say stop, but step {told.step:,} speaks for memorization",
                f"{_seen(told, watch)}. {_BY_ITSELF} {watch.rule}")  # fmt: skip
    title = "No memorization was shown"
    if hardly_possible(watch.options, watch.shared, n_held):
        title += f", and could hardly have been, with {several(n_held, 'held-out patient', 'held-out patients')}"
    return "note", title, f"{_seen(told, watch)}. {watch.rule} {_NO_PROOF}"


def _speaks(look: Look) -> bool:
    """Whether a look by itself shows memorization, by its 95 % interval, its list or the rule's own bound."""
    return look.exceeded or look.share_low > look.nominal or look.listed > 0


def _seen(look: Look, watch: "MemorizationWatch") -> str:
    """The share in words, as `statistics.memorization.memorized_share.MemorizedShare.words` has it, and the list."""
    listed = f"; {several(look.listed, 'patient is', 'patients are')} listed" if look.listed else ""
    each = ", every patient by one image" if watch.real.counted.one_each else ""
    if look.share != look.share:
        return f"{several(look.n_held, 'held-out patient is', 'held-out patients are')} too few to say a share{listed}"
    return (
        f"At step {look.step:,}, {percent(look.share)} ({percent(look.share_low)} to {percent(look.share_high)}) of "
        f"{count(look.n_train)} training patients are nearer to the drawn images than all but {percent(look.nominal)} "
        f"of held-out patients are, judged by {count(look.n_held)} of them{each}{listed}"
    )
