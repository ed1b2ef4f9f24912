"""When an evaluation stops a training, and what follows for a training after its evaluations.

The verdict is that of the rule, or that the looks had no rule that could decide. A rule that cannot stop a training
(``never``, or one that needs more held-out patients) tests nothing: that it did not stop says nothing of memorization.
An evaluation whose own interval lies above the nominal rate, or that lists patients, is reported all the same. Its
error is not shared with the others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memorisk.audits.watch import reasons as why
from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.result import Evaluation, WatchResult
from memorisk.report.blocks import Kind
from memorisk.runs.errors import InputError, plural
from memorisk.statistics.multiple_testing.stopping import ErrorSpending, held_out_for_limit
from memorisk.statistics.verdicts.reasons import Reason


def choose_rule(options: WatchOptions, shared: ErrorSpending, n_held: int) -> WatchOptions:
    """Choose a rule for ``auto``: the first of share and test that can stop a training, or never.

    Args:
        options: Options as they were given.
        shared: Error of the rule over the looks.
        n_held: Held-out patients.
    """
    if options.stop_on != "auto":
        return options
    rules = (replace(options, stop_on="share"), replace(options, stop_on="test"))
    possible = [rule for rule in rules if n_held >= held_out_needed(rule, shared.of_look(1))]
    return possible[0] if possible else replace(options, stop_on="never")


def rule_words(options: WatchOptions, shared: ErrorSpending, n_held: int, *, chosen: bool) -> str:
    """Say which rule stops the training and, where ``auto`` chose it, why.

    Args:
        options: Options with the rule.
        shared: Error of the rule over the looks.
        n_held: Held-out patients.
        chosen: Whether ``auto`` took it.
    """
    rule_name = options.stop_on
    if not chosen:
        return f"The rule is {rule_name}, as it was named."
    share, test = (held_out_needed(replace(options, stop_on=rule), shared.of_look(1)) for rule in ("share", "test"))
    there = plural(n_held, "held-out patient", "held-out patients")
    looks = "at this number of looks" if options.looks is None else f"at {plural(options.looks, 'look', 'looks')}"
    why = {
        "share": f"it needs {share:,} held-out patients {looks}, and there are {n_held:,}",
        "test": f"share needs {share:,} held-out patients {looks}, and there are {n_held:,}; test needs {test:,}",
        "never": f"{there} are too few for share, which needs {share:,} {looks}, and for test, which needs {test:,}",
    }[rule_name]
    return f"The rule is {rule_name}, which auto chose: {why}."


def is_share_unattainable(options: WatchOptions, shared: ErrorSpending, n_held: int) -> bool:
    """Return whether too few held-out patients keep the lower limit of the share at 0, whatever the generator does.

    Args:
        options: Options of the watch.
        shared: Error of the rule over the looks.
        n_held: Held-out patients.
    """
    return n_held < held_out_needed(replace(options, stop_on="share"), shared.of_look(1))


def check_stopping_rule(options: WatchOptions, shared: ErrorSpending, n_held: int) -> None:
    """Refuse a rule that can stop nothing, so that no user relies on it.

    Args:
        options: Options with the rule.
        shared: Error of the rule over the looks.
        n_held: Held-out patients.

    Raises:
        InputError: There are too few of them for this rule.
    """
    first = shared.of_look(1)
    needed = held_out_needed(options, first)
    if n_held < needed:
        fewer = options.stop_on != "test" and n_held >= _held_out_floor(options)
        ways = "hold out more patients, plan fewer looks" + (", stop on test, which needs fewer" if fewer else "")
        raise InputError(
            f"stop_on {options.stop_on} needs {plural(needed, 'held-out patient', 'held-out patients')} at an error "
            f"of {first:.2g} a look, and there are {n_held:,}: {ways}, or say never (stop_on)"
        )


def held_out_needed(options: WatchOptions, error: float) -> int:
    """Count the held-out patients with which a rule can stop a training at a look.

    Args:
        options: Options with the rule.
        error: Error that the look may make, above 0.
    """
    return {
        "share": max(_held_out_floor(options), held_out_for_limit(options.nominal, error)),
        "test": _held_out_floor(options),
        "listed": math.ceil(1 / error - 1e-9) - 1,
        "never": 0,
    }[options.stop_on]


def _held_out_floor(options: WatchOptions) -> int:
    """Count the held-out patients without which a memorized share cannot be computed."""
    return math.ceil(1 / options.nominal - 1e-9) - 1


def evaluation_note(
    nothing: bool, error: float, drawn: int, compared: int, pixels: Mapping[str, int], few: str = ""
) -> str:
    """Describe what limits a look; empty where nothing does.

    Args:
        nothing: Whether no drawn image could be compared.
        error: Error that the look may make.
        drawn: Number of drawn images.
        compared: Number of drawn images that were compared.
        pixels: Numbers of drawn images by their pixels, as `audits.watch.measurements.pixel_fields` counts them.
        few: Sentence that held-out patients are too few for a share; empty where they are enough.
    """
    sentences = [few] if few else []
    blank, of_held_out = pixels["blank"], pixels["held_out_pixels"]
    if blank == drawn:
        sentences.append("Nothing was compared: every drawn image has one value only, and shows no person.")
    elif nothing:
        sentences.append("Nothing was compared: the detector's measure knows no distance of the drawn images.")
    elif compared < drawn:
        sentences.append(f"{drawn - compared:,} drawn images took no part: the measure knows no distance of them.")
    if 0 < blank < drawn:
        sentences.append(
            f"{plural(blank, 'drawn image has', 'drawn images have')} one value only: no person is in them."
        )
    if of_held_out:
        sentences.append(f"{plural(of_held_out, 'drawn image is', 'drawn images are')} among the held-out images.")
    if not error:
        sentences.append("More looks than were planned: this one can stop nothing.")
    return " ".join(sentences)


_UNTESTED = "Nothing was tested, and nothing could have stopped the training: that it went on says nothing."
_AUDIT = (
    "an audit of the images that are to be shared (memorisk audit synthetic), beside patients who had no part in this "
    "watch"
)
_EARLIER = (
    "an audit of its own for the images of any earlier step, before they are released: memorization grows and is shown "
    "late"
)
_A_RULE = "a rule that can stop a training (--stop-on auto), with as many held-out patients as it needs"


@dataclass(frozen=True)
class WatchVerdict:
    """Conclusion after the looks of a watch."""

    kind: Kind
    """Kind of the box on the page."""
    headline: str
    """Conclusion in a line."""
    sentence: str
    """Sentence with the conclusion, and what does not follow from it."""
    reasons: tuple[Reason, ...]
    next_steps: tuple[str, ...]
    """Sentences that each name something to do or to audit next."""


def could_stop(options: WatchOptions, look: Evaluation) -> bool:
    """Return whether a look could have stopped a training.

    There is a rule, something was compared, and its part of the error is not too small for the held-out patients.

    Args:
        options: Options with the rule.
        look: A look.
    """
    rule = options.stop_on != "never" and look.compared and look.error > 0
    return rule and look.n_held >= held_out_needed(options, look.error)


def can_stop(result: WatchResult) -> bool:
    """Return whether the rule can stop a training: any look so far, or before a look the first one."""
    if result.looks:
        return any(could_stop(result.options, look) for look in result.looks)
    needed = held_out_needed(result.options, result.shared.of_look(1))
    return result.options.stop_on != "never" and result.real.n_held_patients >= needed


def watch_verdict(result: WatchResult) -> WatchVerdict:
    """Decide what follows from the looks; doubts about who is who are among the reasons.

    Args:
        result: Result with at least one look.
    """
    verdict = _by_looks(result)
    doubts = (*pixel_doubts(result.looks), *loss_doubts(result.looks), *result.real.ids.reasons)
    steps = (*verdict.next_steps, *(doubt.remedy for doubt in doubts))
    limits = losses_not_compared(result.looks)
    return replace(verdict, reasons=(*verdict.reasons, *limits, *doubts), next_steps=steps)


def _by_looks(result: WatchResult) -> WatchVerdict:
    """Decide by the looks alone."""
    if result.shown is not None:
        return _shown(result, result.shown)
    look = next((look for look in result.looks if look.exceeded), result.looks[-1])
    shows, by_itself = shows_memorization(look), why.LookByItself(n_step=look.step)
    reasons = (_seen(look, result), *([by_itself] if shows else []), why.RuleOfWatch(rule=result.rule))
    if not can_stop(result):
        title = "No rule could stop it: nothing was tested"
        title += f", but step {look.step:,} points to memorization" if shows else ""
        sentence = f"This is not a pass. {_UNTESTED}"
        return WatchVerdict("warning" if shows else "note", title, sentence, reasons, (_AUDIT, _A_RULE))
    if shows:
        title = f"The rule did not say stop, but step {look.step:,} points to memorization"
        sentence = "This is not a pass. The looks together do not settle whether the generator memorizes."
        return WatchVerdict("warning", title, sentence, reasons, (_AUDIT,))
    sentence = "This is not a pass: a look is an audit of few images, and memorization can go unnoticed."
    if any(look.held_out_pixels for look in result.looks):
        title = "Held-out images were drawn, so that the looks decide nothing"
        return WatchVerdict("warning", title, sentence, reasons, (_AUDIT,))
    title, n_held = "No memorization was shown", result.real.n_held_patients
    if loss_doubts(result.looks):
        title = "The images show no memorization, and the network's losses do"
        return WatchVerdict("warning", title, sentence, reasons, (_AUDIT,))
    if is_share_unattainable(result.options, result.shared, n_held):
        title += f", and could hardly have been, with {plural(n_held, 'held-out patient', 'held-out patients')}"
    if (blind := blind_looks(result.options, result.looks)) is not None:
        title += f", and {blind.counted} could not have shown any"
        reasons = (*reasons, blind)
    return WatchVerdict("note", title, sentence, reasons, (_AUDIT,))


def _shown(result: WatchResult, look: Evaluation) -> WatchVerdict:
    """Say what follows from the first look that shows memorization, by its pixels or by the rule."""
    certain, shows = copies_drawn(result.looks), []
    if certain is not None:
        shows.append(certain)
    if result.stop is not None and not result.stop.same_pixels:
        by_rule = why.StoppedAt(n_step=result.stop.step, rule=result.options.stop_on)
        shows += [by_rule, why.ChanceOfStop(error=result.options.error)]
    what = (
        "images that are training images"
        if certain is not None
        else "images nearer to its training patients than chance explains"
    )
    return WatchVerdict(
        "fail",
        f"Memorization was shown at step {look.step:,}; earlier steps may have memorized, too",
        f"Do not release this generator, nor images of it: it draws {what}.",
        (*shows, _seen(look, result), why.RuleOfWatch(rule=result.rule)),
        (*((certain.remedy,) if certain is not None else ()), _EARLIER),
    )


def copies_drawn(looks: Sequence[Evaluation]) -> why.TrainingImagesDrawn | None:
    """Return the look that drew the most training images as a reason; None where none drew any.

    Args:
        looks: Looks of a watch.
    """
    looks = [look for look in looks if look.same_pixels]
    if not looks:
        return None
    most = max(looks, key=lambda look: look.same_pixels)
    return why.TrainingImagesDrawn(
        n_step=most.step, n_images=most.same_pixels, n_drawn=most.n_images, n_looks=len(looks)
    )


def pixel_doubts(looks: Sequence[Evaluation]) -> tuple[Reason, ...]:
    """Return the doubt that held-out images were drawn, by the look that drew the most.

    Args:
        looks: Looks of a watch.
    """
    most = max(looks, key=lambda look: look.held_out_pixels, default=None)
    if most is None or not most.held_out_pixels:
        return ()
    return (why.HeldOutDrawn(n_step=most.step, n_images=most.held_out_pixels, n_drawn=most.n_images),)


def loss_doubts(looks: Sequence[Evaluation]) -> tuple[why.LossesDiffer, ...]:
    """Return the doubt that losses tell training patients apart, by the look that is surest, if one is sure.

    A look is sure where its p is at most the error that it may make, so that all looks together err with that of the
    watch.

    Args:
        looks: Looks of a watch.
    """
    sure = [look for look in looks if look.loss_p_value <= look.error]
    if not sure:
        return ()
    most = max(sure, key=lambda look: look.loss_auc)
    low, high = most.loss_auc_low, most.loss_auc_high
    return (why.LossesDiffer(n_step=most.step, auc=most.loss_auc, auc_low=low, auc_high=high),)


def losses_not_compared(looks: Sequence[Evaluation]) -> tuple[why.LossesNotCompared, ...]:
    """Return the limit that losses were not known at some looks; nothing where they were at each.

    Args:
        looks: Looks of a watch.
    """
    n = sum(math.isnan(look.loss_auc) for look in looks)
    return (why.LossesNotCompared(n_without=n, n_looks=len(looks)),) if n else ()


def shows_memorization(look: Evaluation) -> bool:
    """Return whether a look by itself shows memorization: by pixels, its 95 % interval, list or rule."""
    return look.exceeded or look.same_pixels > 0 or look.share_low > look.nominal or look.listed > 0


def blind_looks(options: WatchOptions, looks: Sequence[Evaluation]) -> why.BlindLooks | None:
    """Count the looks that could have stopped nothing; None where each could.

    Args:
        options: Options with the rule.
        looks: Looks of a watch.
    """
    blind = [look.step for look in looks if not could_stop(options, look)]
    return why.BlindLooks(n_blind=len(blind), n_looks=len(looks), n_first_step=blind[0]) if blind else None


def _seen(look: Evaluation, result: WatchResult) -> why.LookShows:
    return why.LookShows(look=look, one_image_each=bool(result.real.one_image_each))
