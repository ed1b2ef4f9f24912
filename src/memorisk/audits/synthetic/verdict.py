"""What may be said of a synthetic set: it copies patients, it passes, or it could not be decided; what would decide it.

* ``fail``: a training patient is listed; or more of them lie nearer to the set than every held-out patient than a
  random split explains (``p_ahead`` at most 5 %); or a synthetic image has, pixel by pixel, a training image that no
  held-out image shares.
* ``pass``: none of these; a list of as many copied patients as ``--copied`` was possible at all; planted copies are
  found at that list's cut with probability at least ``--recall``, by the lower end of the interval; and neither pixels
  nor held-out images raise a doubt.
* ``undecided``: everything else, above all a set without held-out images.

METHODS leaves the two numbers of a pass open. 5 % of the patients, since a list of fewer needs more held-out patients
than a split of 70 to 15 has (`reversed_queries.held_out_needed`); a recall of one half, since below it copies of the
planted kinds would be missed more often than found.
"""

from typing import Any

from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.words import Terms, p_words, share

AHEAD_LEVEL = 0.05
"""At or below this p the training patients nearer than every held-out one are too many for chance."""
NEAR_LEVEL = 0.05
"""The same for patients with a nearly identical synthetic image: a doubt, since the threshold is no test of copying."""
NO_HELD_OUT = (
    "no held-out images were given: distances alone cannot tell a copy from an image that is like many patients"
)
_OF_THE_PAGE = ("units", "notes", "labels_given")


def synthetic_verdict(numbers: dict[str, Any], options: SyntheticOptions) -> dict[str, Any]:
    """Status, reasons, what would decide it, and the numbers that a pipeline may act on.

    Args:
        numbers: Of `analysis.numbers_of`.
        options: What a pass needs.
    """
    terms = Terms(numbers["units"])
    status, why, deciding = "fail", _found(numbers, terms), []
    if not why and numbers["n_held_patients"] is None:
        status, why, deciding = "undecided", [NO_HELD_OUT], [_give_held_out(numbers, terms)]
    elif not why:
        why, deciding = _doubts(numbers, options, terms)
        status = "undecided" if why else "pass"
        why = why or _passed(numbers, terms)
    return {
        "schema": 1,
        "audit": "synthetic",
        "status": status,
        "gate": "never" if options.fail_on == "never" else "copied",
        "why": why,
        "what_would_decide": deciding,
        **{name: value for name, value in numbers.items() if name not in _OF_THE_PAGE},
    }


def _found(numbers: dict[str, Any], terms: Terms) -> list[str]:
    """Reasons to fail."""
    said = []
    if n := numbers["n_certain_copies"]:
        are = "image has" if n == 1 else "images have"
        said.append(f"{n:,} synthetic {are} the very pixels of a training image that no held-out image shares")
    if n := numbers["n_listed"]:
        are = f"{terms.counted(n, 'training')} {'is' if n == 1 else 'are'}"
        said.append(
            f"{are} listed as nearer to the set than held-out {terms.units} are; at most {share(numbers['level'])} of "
            "a list are expected to be there by chance"
        )
    if numbers["p_ahead"] is not None and numbers["p_ahead"] <= AHEAD_LEVEL:
        said.append(
            f"{numbers['n_ahead']:,} training {terms.units} lie nearer to the set than every held-out one; by chance "
            f"so many would with probability {p_words(numbers['p_ahead'])}"
        )
    return said


def _give_held_out(numbers: dict[str, Any], terms: Terms) -> str:
    return (
        f"--held-out with {numbers['held_out_needed']:,} {terms.units} or more {terms.whom} the generator never saw, a "
        f"random part of the same data: with so many a list of {terms.counted(numbers['copied'])} is possible"
    )


def _doubts(numbers: dict[str, Any], options: SyntheticOptions, terms: Terms) -> tuple[list[str], list[str]]:
    """Why it cannot pass, and what would decide it."""
    found = [
        _short_list(numbers, options, terms),
        _little_power(numbers, options, terms),
        _near_pairs(numbers, terms),
        _seen_held_out(numbers),
    ]
    doubts = [doubt for doubt in found if doubt is not None]
    return [why for why, _ in doubts], [way for _, way in doubts]


def _short_list(numbers: dict[str, Any], options: SyntheticOptions, terms: Terms) -> tuple[str, str] | None:
    shortest, copied = numbers["shortest_list"], numbers["copied"]
    if shortest <= copied:
        return None
    possible = f"no list of fewer than {terms.counted(shortest)} was possible"
    if shortest > numbers["n_train_patients"]:
        possible = "no list was possible at all"
    return (
        f"{possible}; a pass needs that {terms.counted(copied, 'copied')} ({share(options.copied)}) could be listed",
        f"{numbers['held_out_needed']:,} held-out {terms.units} (there are {numbers['n_held_patients']:,}), or a "
        "larger --copied if more copied ones may go unnoticed",
    )


def _little_power(numbers: dict[str, Any], options: SyntheticOptions, terms: Terms) -> tuple[str, str] | None:
    recall = numbers["recall"]
    if recall is None:
        why = "no training image could be copied" if options.plants else "none were asked for"
        why = "features were computed elsewhere" if numbers["saved_features"] else why
        return (
            f"no copies were planted ({why}), so that nothing is known of what would have been found",
            "--features that can be computed of new images, and --plants 20",
        )
    if recall["low"] >= options.recall:
        return None
    many = " with as many images each" if 0 < numbers["n_reachable"] < numbers["n_train_patients"] else ""
    better = "a detector trained to find copies" if numbers["weak_features"] else "another detector"
    return (
        f"of planted copies {recall['successes']:,} of {recall['trials']:,} were found, which shows that "
        f"{share(recall['low'])} or more of such copies would be; a pass needs {share(options.recall)}",
        f"{better} (--features), more held-out {terms.units}{many}, or more --plants",
    )


def _near_pairs(numbers: dict[str, Any], terms: Terms) -> tuple[str, str] | None:
    if numbers["near_p"] is None or numbers["near_p"] > NEAR_LEVEL:
        return None
    return (
        f"{numbers['n_near_train']:,} training {terms.units} and {numbers['n_near_held']:,} held-out ones have a "
        f"nearly identical synthetic image (p {p_words(numbers['near_p'])}), which the features do not show",
        "these pairs, looked at (--gallery), and a detector that finds them",
    )


def _seen_held_out(numbers: dict[str, Any]) -> tuple[str, str] | None:
    if not (n := numbers["n_held_copies"]):
        return None
    have = "image has" if n == 1 else "images have"
    return (
        f"{n:,} synthetic {have} the very pixels of a held-out image: the generator saw it, or images as simple as "
        "these coincide",
        "held-out images that the generator cannot have seen",
    )


def _passed(numbers: dict[str, Any], terms: Terms) -> list[str]:
    """What a pass rests on."""
    told = [
        f"no training {terms.unit} is listed as nearer to the set than held-out {terms.units} are",
        f"a list of {terms.counted(numbers['copied'])} was possible; {numbers['promise']}",
    ]
    uncovered = [kind for kind, found in numbers["recall_by_kind"].items() if found["estimate"] < 0.5]
    if uncovered:
        told.append(f"copies of these kinds, each by itself, are missed more often than found: {', '.join(uncovered)}")
    if numbers["copies_bound"] is not None:
        told.append(
            f"at most {100 * numbers['copies_bound']:.1f} % of the set are copies of the planted kinds, if its images "
            "were drawn independently"
        )
    return told
