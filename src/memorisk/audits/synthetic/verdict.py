"""What may be said of a synthetic set: it copies patients, it passes, or it could not be decided; and what would decide.

* ``fail``: a training patient is listed; or more of them lie nearer to the set than every held-out patient than a
  random split explains (``p_ahead`` at most 5 %); or a synthetic image has, pixel by pixel, a training image that no
  held-out image shares.
* ``pass``: none of these; a list of as many copied patients as ``--copied`` was possible at all; planted copies are
  found at that list's cut with probability at least ``--recall``, by the lower end of the interval; and neither pixels
  nor held-out images raise a doubt.
* ``undecided``: everything else, above all a set without held-out images.
"""

from typing import Any

from memorisk.audits.synthetic.options import SyntheticOptions

AHEAD_LEVEL = 0.05
"""At or below this p the training patients nearer than every held-out one are too many for chance."""
NEAR_LEVEL = 0.05
"""The same for patients with a nearly identical synthetic image: a doubt, since the threshold is no test of copying."""
NO_HELD_OUT = (
    "no held-out images were given: distances alone cannot tell a copy from an image that is like many patients"
)
RESTS = (
    "p-values rest on a random split by patient between training and held-out images, on a checkpoint that neither "
    "part chose, and on a detector that was trained on neither, or on both alike"
)


def synthetic_verdict(numbers: dict[str, Any], options: SyntheticOptions) -> dict[str, Any]:
    """Status, reasons, what would decide it, and the numbers that a pipeline may act on.

    Args:
        numbers: Of `analysis.numbers_of`.
        options: What a pass needs.
    """
    units = numbers["units"]
    found = _found(numbers)
    if found:
        status, why, deciding = "fail", found, []
    elif numbers["n_held_patients"] is None:
        status, why, deciding = (
            "undecided",
            [NO_HELD_OUT],
            [
                f"--held-out with images of {numbers['held_out_needed']:,} {units} or more that the generator never saw: a "
                f"random part of the same data, which lets a list of {numbers['copied']:,} copied {units} be made"
            ],
        )
    else:
        why, deciding = _doubts(numbers, options)
        status = "undecided" if why else "pass"
        why = why or _passed(numbers)
    kept = ("units", "notes", "labels_given")
    return {
        "schema": 1,
        "audit": "synthetic",
        "status": status,
        "gate": "never" if options.fail_on == "never" else "copied",
        "why": why,
        "what_would_decide": deciding,
        **{name: value for name, value in numbers.items() if name not in kept},
    }


def _found(numbers: dict[str, Any]) -> list[str]:
    """Reasons to fail."""
    units, said = numbers["units"], []
    if n := numbers["n_certain_copies"]:
        are = "image is" if n == 1 else "images are"
        said.append(f"{n:,} synthetic {are}, pixel by pixel, a training image that no held-out image shares")
    if n := numbers["n_listed"]:
        said.append(
            f"{n:,} training {_one(units) if n == 1 else units} "
            f"{'is' if n == 1 else 'are'} listed as nearer to the set than held-out {units} are; at most "
            f"{numbers['level']:.0%} of a list are expected to be there by chance"
        )
    if numbers["p_ahead"] is not None and numbers["p_ahead"] <= AHEAD_LEVEL:
        said.append(
            f"{numbers['n_ahead']:,} training {units} lie nearer to the set than every held-out one; by chance so many "
            f"would have p {numbers['p_ahead']:.2g}"
        )
    return said


def _doubts(numbers: dict[str, Any], options: SyntheticOptions) -> tuple[list[str], list[str]]:
    """Why it cannot pass, and what would decide it."""
    units, doubts, deciding = numbers["units"], [], []
    shortest, copied = numbers["shortest_list"], numbers["copied"]
    if shortest > copied:
        possible = f"no list of fewer than {shortest:,} {units} was possible"
        if shortest > numbers["n_train_patients"]:
            possible = "no list was possible at all"
        doubts.append(f"{possible}; a pass needs that {copied:,} copied ones ({options.copied:.0%}) could be listed")
        deciding.append(
            f"{numbers['held_out_needed']:,} held-out {units} (there are {numbers['n_held_patients']:,}), or a larger "
            "--copied if more copied ones may go unnoticed"
        )
    recall = numbers["recall"]
    if recall is None:
        why = "features were computed elsewhere" if numbers["saved_features"] else "none were asked for"
        doubts.append(f"no copies were planted ({why}), so that nothing is known of what would have been found")
        deciding.append("--features that can be computed of new images, and --plants 20")
    elif not recall["low"] >= options.recall:
        doubts.append(
            f"of planted copies {recall['successes']:,} of {recall['trials']:,} were found, {recall['low']:.0%} or more "
            f"with 97.5 % confidence; a pass needs {options.recall:.0%}"
        )
        weak = " trained to find copies" if numbers["weak_features"] else ""
        deciding.append(f"another detector{weak} (--features), more held-out {units}, or more --plants")
    if numbers["near_p"] is not None and numbers["near_p"] <= NEAR_LEVEL:
        doubts.append(
            f"{numbers['n_near_train']:,} training {units} and {numbers['n_near_held']:,} held-out ones have a nearly "
            f"identical synthetic image (p {numbers['near_p']:.2g}), which the features do not show"
        )
        deciding.append("these pairs, looked at (--gallery), and a detector that finds them")
    if numbers["n_held_copies"]:
        doubts.append(
            f"{numbers['n_held_copies']:,} synthetic images are, pixel by pixel, held-out images: the generator saw "
            "them, or images as simple as these coincide"
        )
        deciding.append("held-out images that the generator cannot have seen")
    return doubts, deciding


def _passed(numbers: dict[str, Any]) -> list[str]:
    """What a pass rests on."""
    units, recall = numbers["units"], numbers["recall"]
    told = [
        f"no training {_one(units)} is listed as nearer to the set than held-out {units} are",
        f"a list of {numbers['copied']:,} copied {units} was possible; {numbers['promise']}",
    ]
    uncovered = [kind for kind, share in numbers["recall_by_kind"].items() if share["low"] < recall["low"] / 2]
    if uncovered:
        told.append(f"of these kinds, each by itself, fewer may be found: {', '.join(uncovered)}")
    if numbers["copies_bound"] is not None:
        told.append(
            f"at most {numbers['copies_bound']:.1%} of the set are copies of the planted kinds, if its images were "
            "drawn independently"
        )
    return told


def _one(units: str) -> str:
    """One of them."""
    return units.removesuffix("s")
