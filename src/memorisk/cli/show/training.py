"""Terminal output of trained classifiers and detectors of any kind, of regimes and studies."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from memorisk.cli.show.common import plain_table, print_json, signed
from memorisk.runs.errors import plural
from memorisk.runs.workload import duration

if TYPE_CHECKING:
    from memorisk.studies.engine.study import FinishedStudy
    from memorisk.studies.rare_distinctive.plan import StudyPlan
    from memorisk.studies.unique_features.study import UniquePlan
    from memorisk.training.classifiers.command import TrainedClassifiers
    from memorisk.training.run import Trained, TrainingPlan


def show_trained(trained: "TrainedClassifiers", *, as_json: bool) -> None:
    """Print one row per regime: what it is good for, and what it promises."""
    if as_json:
        print_json(trained.arms)
        return
    console = Console()
    table = plain_table(("regime", "epsilon", "per patient", "accuracy (95 %)", "balanced", "majority"))
    for name, arm in trained.arms.items():
        table.add_row(Text(name), *_promise(arm["privacy"]), *_use(arm["held_out"]))
    console.print(table)
    for name, arm in trained.arms.items():
        held_out = arm["held_out"]
        if held_out is not None and not held_out["beats_majority"]:
            console.print(Text(f"{name} is not surely better than always answering {held_out['majority_class']}."))
        for note in arm["notes"]:
            console.print(Text(f"{name}: {note}"))
    console.print(Text(f"weights and training.json of each: {trained.folder}"), soft_wrap=True)


def show_detector(trained: "Trained", *, as_json: bool) -> None:
    """Print one row per part and strength: copies found before and after the training, and the difference."""
    summary = trained.summary
    if as_json:
        print_json(summary)
        return
    console = Console()
    table = plain_table(("copies found, %", "patients", "backbone", "untrained", "trained", "gain (95 %)"))
    for part in ("test", "validation"):
        for strength, row in summary[part].items():
            shares = (f"{100 * row[name]['share']:.1f}" for name in ("backbone", "untrained", "trained"))
            patients = str(row["trained"]["of_patients"]["trials"])
            table.add_row(f"{part}, {strength}", patients, *shares, _gain(row["trained_less_untrained"]))
    console.print(table)
    at = f"epoch {summary['best_epoch']} of {len(summary['history']) - 1}"
    console.print(Text("found: the nearest image is the source; backbone: by its own features"))
    console.print(Text("gain: trained less untrained, with its interval over patients"))
    console.print(Text(f"{at} was chosen on the validation copies: report those of test"))
    for note in (*summary["departures"], *summary["notes"]):
        console.print(Text(note), soft_wrap=True)
    console.print(Text(f"detector: {trained.folder / 'detector'}"), soft_wrap=True)


def show_detector_plan(plan: "TrainingPlan", *, as_json: bool) -> None:
    """Print what training a detector would take."""
    time = f"about {duration(plan.seconds)} on this machine (training alone)"
    show_training_plan(plan, [f"{plural(plan.steps, 'step', 'steps')}, {time}"], as_json=as_json)


def show_training_plan(plan: "TrainingPlan", lines: Iterable[str], *, as_json: bool, **more: Any) -> None:
    """Print the plan of a training.

    Args:
        plan: Plan of the training.
        lines: Lines that describe the plan for this kind of training.
        as_json: Whether to print JSON, without the lines.
        **more: Values that only the JSON holds.
    """
    if as_json:
        print_json(asdict(plan) | more)
        return
    console = Console()
    for name, count in plan.parts.items():
        images, patients = plural(count["images"], "image", "images"), plural(count["patients"], "patient", "patients")
        console.print(Text(f"{name}: {images} of {patients}"))
    for line in (*lines, *plan.cost.lines()):
        console.print(Text(line))
    for note in plan.notes:
        console.print(Text(note), soft_wrap=True)


def show_study_plan(plan: "StudyPlan") -> None:
    """Print what each part of a study would train and how long, and which would be refused."""
    console = Console()
    table = plain_table(("part", "seeds", "images", "classes that could be flagged", "trainings", "time"))
    for name, plans in plan.parts.items():
        first, times = plans[0], [p.seconds for p in plans]
        table.add_row(
            Text(name),
            str(len(first.seeds)),
            f"{sum(first.parts.values()):,}",
            f"{sum(row.testable for row in first.classes)} of {len(first.classes)}",
            str(sum(p.cost.trainings or 0 for p in plans)),
            "unknown" if None in times else duration(sum(t or 0.0 for t in times)),
        )
    console.print(table)
    for line in plan.cost.lines():
        console.print(Text(line))
    for name, why in plan.problems.items():
        console.print(Text(f"would fail: {name}: {why}"), soft_wrap=True)
    more = ", and what is unknown" if plan.untimed else ""
    console.print(
        Text(
            f"{plural(plan.trainings, 'training', 'trainings')}, about {duration(plan.seconds)} on this machine{more} "
            "(training alone)"
        ),
        soft_wrap=True,
    )


def show_study(result: "FinishedStudy", out: Path) -> None:
    """Print every table as the paper lays it out, what failed, and where the rest lies."""
    from memorisk.studies.engine.study import NOT_RUN_YET
    from memorisk.studies.engine.tables import tables_markdown

    sys.stdout.write(tables_markdown(result.tables) + "\n")
    failed = [f"{why}: {n}" if why == NOT_RUN_YET else f"failed: {n}: {why}" for n, why in result.failed.items()]
    console = Console()
    for line in (*failed, f"report: {out / 'report.html'}"):
        console.print(Text(line), soft_wrap=True)


def show_unique_features_plan(plan: "UniquePlan") -> None:
    """Print how many models the study of unique features would train."""
    from memorisk.studies.unique_features.plan import network_words, regulariser_words

    console = Console()
    words, numbers = ("data set", "network", "regulariser"), ("images", "validation", "probes", "controls", "trainings")
    table = plain_table((*words, *numbers), left=words)
    for arm, trainings in plan.trainings.items():
        images, validation, probes = plan.images[arm.dataset]
        counts = (images, validation, probes, plan.controls[arm.dataset], trainings)
        named = (arm.dataset, network_words(arm.network), regulariser_words(arm))
        table.add_row(*(Text(name) for name in named), *(f"{n:,}" for n in counts))
    console.print(table)
    for line in plan.cost.lines():
        console.print(Text(line))
    total = plural(sum(plan.trainings.values()), "training", "trainings")
    console.print(Text(f"{total}; how long each lasts is known only when its validation loss stops falling"))


def _gain(paired: dict[str, Any]) -> str:
    """Return a difference of shares in percentage points, with its interval; words where that says nothing."""
    if not paired["n_discordant"]:
        return "none: both find the same copies"
    difference = paired["difference"]
    low, high = difference["low"], difference["high"]
    limits = "too few patients for an interval"
    if low is not None and high is not None and (low > -1 or high < 1):
        limits = f"{100 * low:.1f} to {100 * high:.1f}"
    estimate = difference["estimate"]
    return f"{signed(None if estimate is None else 100 * estimate, 1)} ({limits})"


def _promise(privacy: dict[str, Any] | None) -> tuple[str, str]:
    if privacy is None:
        return "none", "none"
    patient, epsilon = privacy["per_patient_epsilon"], f"{privacy['epsilon']:g}"
    if not privacy["patients_known"]:
        return epsilon, "no ids"
    return epsilon, "unbounded" if patient is None else f"{patient:.3g} ({privacy['largest_group']} images)"


def _use(held_out: dict[str, Any] | None) -> tuple[str, str, str]:
    if held_out is None:
        return "several findings", "", ""
    accuracy, balanced = held_out["accuracy"], held_out["balanced"]
    limits = "" if accuracy["low"] is None else f" ({accuracy['low']:.3f} to {accuracy['high']:.3f})"
    return f"{accuracy['value']:.3f}{limits}", f"{balanced['value']:.3f}", f"{held_out['majority']:.3f}"


_STAGES = {"stage1": "stage 1", "detector": "detector", "detector_less_stage1": "gain of stage 2"}


def show_trained_detector(trained: "Trained", *, as_json: bool) -> None:
    """Print what a detector is good for, in the terms of its kind."""
    if trained.summary.get("kind") is None:
        show_detector(trained, as_json=as_json)
    elif as_json:
        print_json(trained.summary)
    else:
        _show(trained)


def _show(trained: "Trained") -> None:
    """Print a table of AUCs, a table of copies found, and the notes."""
    summary, console = trained.summary, Console()
    test = summary["test"]
    headings = ("same patient, test", "data set", "patients", "AUC (95 %)", "told apart, %")
    table = plain_table(headings, left=["data set"])
    for stage, words in _STAGES.items():
        for name, auc in test.get(stage, {}).get("auc", {}).items():
            patients = str(auc["n_positive_identities"]) if "n_positive_identities" in auc else ""
            apart = test[stage].get("specificity", {}).get(name)
            distinguished = "" if apart is None else _identity_line(apart["interval"])
            table.add_row(words, Text(name), patients, _estimate(auc.get("interval", auc)), distinguished)
    if table.row_count:
        console.print(table)
        console.print(Text("told apart: pairs of two patients below the score that 95 % of the pairs of one reach"))
        console.print(Text("(all of them, where fewer than 59 patients have pairs)"))
    else:
        console.print(Text("no patient has two test images: nothing to say about telling patients apart"))
    _show_recalls(console, test)
    best = ", ".join(f"{_STAGES[name]} {epoch}" for name, epoch in summary["best_epoch"].items())
    console.print(Text(f"epochs chosen on validation patients: {best}"))
    for note in summary["notes"]:
        console.print(Text(note), soft_wrap=True)
    console.print(Text(f"detector: {trained.folder / 'detector'}"), soft_wrap=True)


def _show_recalls(console: Console, test: dict[str, Any]) -> None:
    """Show the copies found at the strongest of each family."""
    stages = [stage for stage in ("stage1", "detector") if test.get(stage, {}).get("recall")]
    if not stages:
        return
    table = plain_table(("copies found at the strongest, %", *(_STAGES[stage] for stage in stages)))
    for family in test[stages[0]]["recall"]:
        by_stage = [test[stage]["recall"][family] for stage in stages]
        strongest = list(by_stage[0])[-1]
        table.add_row(f"{family} {strongest}", *(_share(recalls[strongest]) for recalls in by_stage))
    console.print(table)
    console.print(Text("found: above the score that half of the validation pairs of two patients stay below"))


def _share(share: dict[str, Any]) -> str:
    return f"{100 * share['estimate']:.1f} ({100 * share['low']:.1f} to {100 * share['high']:.1f})"


def _identity_line(interval: dict[str, Any]) -> str:
    return "" if interval["estimate"] is None else _share(interval)


def _estimate(interval: dict[str, Any]) -> str:
    if interval["estimate"] is None:
        return "not measurable"
    limits = ""
    if interval["low"] is not None and interval["high"] is not None:
        limits = f" ({interval['low']:.3f} to {interval['high']:.3f})"
    return f"{interval['estimate']:.3f}{limits}"
