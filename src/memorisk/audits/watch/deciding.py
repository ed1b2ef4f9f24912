"""When a look stops a training, and what it notes of the distances."""

import math
from dataclasses import replace
from typing import Any

from memorisk.audits.watch.measuring import Nearness
from memorisk.audits.watch.options import WatchOptions
from memorisk.runs.errors import InputError, several
from memorisk.statistics.copies.stopping_rule import SharedError, held_out_for_limit

_NO_DISTANCES = {
    **dict.fromkeys(("share", "train_nearest", "held_nearest", "train_least", "held_least"), math.nan),
    **{"share_low": 0.0, "share_high": 1.0, "share_floor": 0.0, "p_value": 1.0, "p_ahead": 1.0},
    **dict.fromkeys(("listed", "shortest_list", "ahead"), 0),
}


def choose_rule(options: WatchOptions, shared: SharedError, n_held: int) -> WatchOptions:
    """The settings with a rule in place of ``auto``: the first of share and test that can stop a training, or never.

    Args:
        options: As they were given.
        shared: Error of the rule over the looks.
        n_held: Held-out patients.
    """
    if options.stop_on != "auto":
        return options
    rules = (replace(options, stop_on="share"), replace(options, stop_on="test"))
    possible = [rule for rule in rules if n_held >= held_out_needed(rule, shared)]
    return possible[0] if possible else replace(options, stop_on="never")


def rule_words(options: WatchOptions, shared: SharedError, n_held: int, *, chosen: bool) -> str:
    """Which rule stops the training and, of ``auto``, why it is that one; in a sentence.

    Args:
        options: With the rule.
        shared: Its error over the looks.
        n_held: Held-out patients.
        chosen: Whether ``auto`` took it.
    """
    taken = options.stop_on
    if not chosen:
        return f"The rule is {taken}, as it was named."
    share, test = (held_out_needed(replace(options, stop_on=rule), shared) for rule in ("share", "test"))
    there = several(n_held, "held-out patient", "held-out patients")
    looks = "at this number of looks" if options.looks is None else f"at {several(options.looks, 'look', 'looks')}"
    why = {
        "share": f"it needs {share:,} held-out patients {looks}, and there are {n_held:,}",
        "test": f"share needs {share:,} held-out patients {looks}, and there are {n_held:,}; test needs {test:,}",
        "never": f"{there} are too few for share, which needs {share:,} {looks}, and for test, which needs {test:,}",
    }[taken]
    return f"The rule is {taken}, which auto took: {why}."


def hardly_possible(options: WatchOptions, shared: SharedError, n_held: int) -> bool:
    """Whether the held-out patients are too few for a lower limit of the share above 0, whatever the generator does.

    Args:
        options: Of the watch.
        shared: Error of the rule over the looks.
        n_held: Held-out patients.
    """
    return n_held < held_out_needed(replace(options, stop_on="share"), shared)


def check_stop(options: WatchOptions, shared: SharedError, n_held: int) -> None:
    """Refuse a rule that can stop nothing, so that nobody relies on it.

    Args:
        options: With the rule.
        shared: Its error over the looks.
        n_held: Held-out patients.

    Raises:
        InputError: There are too few of them for this rule.
    """
    first, needed = shared.of_look(1), held_out_needed(options, shared)
    if n_held < needed:
        fewer = options.stop_on != "test" and n_held >= _floor(options)
        ways = "hold out more patients, plan fewer looks" + (", stop on test, which needs fewer" if fewer else "")
        raise InputError(
            f"stop_on {options.stop_on} needs {several(needed, 'held-out patient', 'held-out patients')} at an error "
            f"of {first:.2g} a look, and there are {n_held:,}: {ways}, or say never (stop_on)"
        )


def held_out_needed(options: WatchOptions, shared: SharedError) -> int:
    """Held-out patients with which a rule can stop a training at its first look.

    Args:
        options: With the rule.
        shared: Its error over the looks.
    """
    first = shared.of_look(1)
    return {
        "share": max(_floor(options), held_out_for_limit(options.nominal, first)),
        "test": _floor(options),
        "listed": math.ceil(1 / first - 1e-9) - 1,
        "never": 0,
    }[options.stop_on]


def _floor(options: WatchOptions) -> int:
    """Held-out patients without whom there is no memorized share."""
    return math.ceil(1 / options.nominal - 1e-9) - 1


def exceeds(seen: Nearness, options: WatchOptions, error: float) -> bool:
    """Whether a look says what the rule waits for, with the error that it may make."""
    if not error or options.stop_on == "never":
        return False
    return {
        "share": seen.floor > options.nominal,
        "test": seen.share.p_value <= error,
        "listed": seen.listed_at_error,
    }[options.stop_on]


def as_fields(seen: Nearness | None) -> dict[str, Any]:
    """The fields of a look that distances give."""
    if seen is None:
        return dict(_NO_DISTANCES)
    return {
        "share": seen.share.estimate,
        "share_low": seen.share.low,
        "share_high": seen.share.high,
        "share_floor": seen.floor,
        "p_value": seen.share.p_value,
        "listed": seen.queries.listed.n_rejected,
        "shortest_list": seen.queries.shortest_list,
        "ahead": seen.queries.ahead,
        "p_ahead": seen.queries.p_ahead,
        "train_nearest": seen.medians[0],
        "held_nearest": seen.medians[1],
        "train_least": seen.least[0],
        "held_least": seen.least[1],
    }


def note_of(nothing: bool, error: float, drawn: int, compared: int, few: str = "") -> str:
    """What must be said of a look, empty for nothing.

    Args:
        nothing: Whether no drawn image could be compared.
        error: Of the look.
        drawn: Images.
        compared: Of these.
        few: That held-out patients are too few for a share; empty where they are not.
    """
    said = [few] if few else []
    if nothing:
        said.append("Nothing was compared: the detector's measure knows no distance of the drawn images.")
    elif compared < drawn:
        said.append(f"{drawn - compared:,} drawn images took no part: the measure knows no distance of them.")
    if not error:
        said.append("More looks than were planned: this one can stop nothing.")
    return " ".join(said)
