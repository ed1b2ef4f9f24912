"""Terminal output of audits: a mark, a set of synthetic images, a watch and its evaluations."""

from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console
from rich.text import Text

from memorisk.audits.feature.page import SENTENCES, TITLES, noticeable_sensitivity, sensitivity
from memorisk.audits.feature.result import FeatureVerdict
from memorisk.audits.synthetic.result import DetectorRate, PixelPairs, SyntheticNumbers, SyntheticSummary
from memorisk.audits.synthetic.wording import HEADLINES
from memorisk.audits.watch.reasons import RULES
from memorisk.audits.watch.result import Evaluation, WatchResult
from memorisk.audits.watch.verdict import can_stop, watch_verdict
from memorisk.cli.show.common import (
    limits,
    percent,
    plain_table,
    print_json,
    print_list,
    print_reasons,
    print_rows,
    signed,
)
from memorisk.report.columns import column_texts, count
from memorisk.report.numbers import from_json, to_json
from memorisk.report.result import Result
from memorisk.report.statements.statement import WAYS
from memorisk.runs.errors import one_line, plural

if TYPE_CHECKING:
    from memorisk.audits.synthetic.run import SyntheticPlan
    from memorisk.audits.watch.memorization_watch import MemorizationWatch
    from memorisk.audits.watch.run import WatchPlan

_NAMED = 10  # changed pairs that the terminal names


def show_feature(result: Result, out: Path, *, as_json: bool) -> None:
    """Show the verdict in a sentence, its numbers, and where the report lies."""
    if as_json:
        print_json(result.verdict)
        return
    v = FeatureVerdict.read(result.verdict)
    m, test, n = v.m, v.test, v.counts
    console = Console()
    interval = "" if isnan(m.low_log) else f" ({limits(m.low_log, m.high_log)})"
    lines = [
        ("sensitivity to the mark", f"{' '.join(sensitivity(v))}; M {signed(m.estimate_log)}{interval}"),
        ("p-value", f"{test.p_value:.3g}, {test.method}; smallest possible {test.smallest_p:.2g}"),
        ("found in four of five cases", " ".join(noticeable_sensitivity(test)).strip()),
        ("controls, models, references, probes", f"{n.n_controls}, {n.n_models}, {n.n_references}, {n.n_probes}"),
    ]
    if v.m_published_nats is not None:
        published = f"{v.m_published_nats:.3g}, {v.p_welch_published:.3g} (not used)"
        lines.append(("M as published, its Welch p", published))
    if v.m_white_box is not None:
        lines.append(("M_w, white box", f"{v.m_white_box:.3g}"))
    print_rows(console, lines)
    title = TITLES[v.status][1].upper()
    ways = WAYS.get(v.status, "")
    print_reasons(console, title, v.why, ways, v.what_would_decide, sentence=SENTENCES[v.status])
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def show_synthetic(result: Result, out: Path, *, as_json: bool) -> None:
    """Show the verdict in a sentence, its numbers, and where the report lies.

    Args:
        result: Result of the audit.
        out: Run folder of the audit.
        as_json: Print the verdict as JSON instead.
    """
    if as_json:
        print_json(result.verdict)
        return
    console, summary = Console(), from_json(SyntheticSummary, result.summary)
    print_rows(console, _lines(summary.numbers))
    heading = WAYS.get(result.status, "")
    print_reasons(console, HEADLINES[result.status][1].upper(), result.why, heading, result.what_would_decide)
    if not summary.groups_given:
        text = "No patient ids were given: every image stands for itself (--group-from, --group-column)."
        console.print(Text(f"Note: {text}"), soft_wrap=True)
    if not result.redacted:
        _print_changed(console, result.tables["review"])
    if n := sum(not verdict for verdict in column_texts(result.tables["review"], "verdict")):
        pairs = plural(n, "pair", "pairs")
        text = (
            f"{pairs} to look at: memorisk view {out}, or fill {out / 'review.csv'}; then the same with --review {out}"
        )
        console.print(Text(text), soft_wrap=True)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def _print_changed(console: Console, review: pd.DataFrame) -> None:
    """Name the first pairs that have to be judged anew because an image was changed."""
    changed = review.loc[review["changed"].astype(str) != ""]
    columns = (column_texts(changed.head(_NAMED), name) for name in ("synthetic_image", "training_image", "changed"))
    for synthetic, real, verdict in zip(*columns, strict=True):
        text = f"Changed since it was judged ({verdict}), asked about anew: {one_line(synthetic)} and {one_line(real)}"
        console.print(Text(text), soft_wrap=True)
    if (more := len(changed) - _NAMED) > 0:
        console.print(Text(f"{plural(more, 'more changed pair is', 'more changed pairs are')} in review.csv"))


def show_synthetic_plan(plan: "SyntheticPlan", *, as_json: bool) -> None:
    """Print what would be compared and could be concluded."""
    if as_json:
        print_json(asdict(plan))
        return
    console = Console()
    listed = "none possible" if plan.shortest_list is None else f"{plan.shortest_list:,}"
    if not plan.images["held out"]:
        listed = "none: no held-out images, hence distances only"
    lines = [
        ("images", ", ".join(f"{what} {n:,}" for what, n in plan.images.items())),
        ("compared", _compared(plan)),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("left out", f"{plan.left_out:,} held-out patients with a training image"),
        ("features", plan.features),
        ("planted copies", f"{plan.plants:,} of {plan.plant_patients:,} patients"),
        ("also tried, not required", f"{plan.further_plants:,} copies of other kinds"),
        ("shortest list of patients", listed),
        ("held-out patients wanted", f"{plan.held_out_wanted:,} or more"),
        *plan.cost.rows(),
        ("could pass", "no" if plan.lacking else "yes, if nothing is found and enough planted copies are noticed"),
        *(("lacking", text) for text in plan.lacking),
        *(("note", note) for note in plan.notes),
    ]
    print_rows(console, lines)


def _compared(plan: "SyntheticPlan") -> str:
    """Say which pixels a pass is about, and what of the files it is not."""
    text = f"{plan.compared.words}; a pass is about these, and memorisk release writes no others"
    if plan.first_file is None or plan.compared.covers(plan.first_file):
        return text
    return f"{text}. The first generated file holds {plan.first_file.words}: give settings that keep what goes out"


def _comparison(n: SyntheticNumbers) -> str:
    """Name what compared the images; one detector with what was fitted."""
    several = n.comparison.n_detectors > 1
    return "; ".join(n.comparison.detectors) if several else f"{n.comparison.features}, {n.comparison.measure}"


def _lines(n: SyntheticNumbers) -> list[tuple[str, str]]:
    listing, power, pixels, units = n.listing, n.power, n.pixels, n.units
    lines = [
        (f"training {units}, synthetic images", f"{n.sets.n_train_patients:,}, {n.sets.n_synthetic_images:,}"),
        (f"held-out {units}", "none" if n.sets.held is None else f"{n.sets.held.n_held_patients:,}"),
        ("compared by", _comparison(n)),
        ("pixel-identical copies", _identical(pixels)),
        (f"training {units} with a nearly identical image", _near(pixels) if n.near_copies_seen else count(None)),
    ]
    if listing is not None:
        possible = listing.shortest_list_patients <= n.sets.n_train_patients
        shortest = f"shortest possible list {listing.shortest_list_patients:,}" if possible else "no list was possible"
        lines += [
            ("images singled out", count(listing.n_singled_images)),
            (f"{units} listed", f"{listing.n_listed_patients:,}; {shortest}"),
            ("nearer than every held-out one", f"{listing.n_ahead_patients:,}, p {listing.p_ahead:.3g}"),
        ]
    for rate in () if n.paired is None else n.paired.rates:
        lines.append((f"MemRate by {rate.detector}", _rate(rate)))
    if (recall := power.recall) is not None:
        limits = f"{100 * recall.low:.0f} to {100 * recall.high:.0f} %"
        sources = f"of {recall.trials} {units}, one copy each ({limits})"
        lines.append(("planted copies noticed", f"{recall.successes} {sources}"))
        each = (f"{kind} {s.successes} of {s.trials}" for kind, s in (power.recall_by_kind or {}).items())
        lines.append(("of each kind", ", ".join(each)))
    if power.also_tried:
        each = (f"{kind} {s.successes} of {s.trials}" for kind, s in power.also_tried.items())
        lines.append(("also tried, not required", ", ".join(each)))
    if n.aligned is not None and n.aligned.blind:
        lines.append(("second look", "could confirm no pair"))
    elif n.aligned is not None and n.aligned.confirms_no_plant:
        lines.append(("second look", "confirms no planted copy: that it confirms nothing says nothing"))
    return lines


def _rate(rate: DetectorRate) -> str:
    """Return MemRate with its value on held-out images."""
    if rate.rate is None:
        return "no threshold"
    limits = [percent(one.estimate, one.low, one.high) if one else "no images" for one in (rate.rate, rate.held)]
    return f"{limits[0]}; held out {limits[1]}{'; no larger than by chance' if rate.by_chance else ''}"


def _identical(pixels: PixelPairs) -> str:
    """Return the number of identical images, with those that a person dismissed."""
    n = pixels.n_dismissed_identical_images
    return f"{pixels.n_certain_images + n:,}{f', {n:,} dismissed' if n else ''}"


def _near(pixels: PixelPairs) -> str:
    """Return how many there are, with the number of held-out ones."""
    held = pixels.n_near_held_patients
    return f"{pixels.n_near_train_patients:,}{'' if held is None else f'; held out {held:,}'}"


def show_evaluation(look: Evaluation) -> None:
    """Print one line per look as soon as the look is over."""
    Console().print(Text(look.words), soft_wrap=True)


def show_watch(result: WatchResult, *, as_json: bool) -> None:
    """Print one row per look, what the rule says, and where the report lies."""
    if as_json:
        stop = None if result.stop is None else result.stop.step
        content = {"looks": [asdict(look) for look in result.looks], "stop": stop}
        content |= {"headline": result.headline, "rule": result.rule, "notes": result.notes}
        print_json(content | to_json(result.real.ids))
        return
    console = Console()
    table = plain_table(("step", "memorized share (95 %)", "listed", "FID", "as many", "held-out", "loss"))
    for look in result.looks:
        share = f"{look.share:.1%} ({look.share_low:.1%} to {look.share_high:.1%})" if look.share == look.share else ""
        table.add_row(
            f"{look.step:,}", share, count(look.n_listed), _number(look.fid), _number(look.fid_same_number),
            _number(look.fid_held_out), _number(look.held_out_loss),
        )  # fmt: skip
    console.print(table)
    console.print()
    verdict = watch_verdict(result) if result.looks else None
    headline = "Nothing was looked at" if verdict is None else verdict.headline
    console.print(Text(headline.upper(), style="bold"), soft_wrap=True)
    if verdict is None:
        console.print(Text(result.rule), soft_wrap=True)
    else:
        console.print(Text(verdict.sentence), soft_wrap=True)
        for reason in verdict.reasons:
            console.print(Text(f"  {reason.text}"), soft_wrap=True)
        print_list(console, "What to do next", verdict.next_steps)
    if result.looks and result.looks[-1].fid_name:
        content = "as many: of no more drawn images than are held out; held-out: of real images in the place of these"
        console.print(Text(f"{result.looks[-1].fid_name}; {content}"), soft_wrap=True)
    for note in result.notes:
        console.print(Text(note), soft_wrap=True)
    console.print(Text("The final audit needs held-out patients who had no part in this watch."), soft_wrap=True)
    if result.folder is not None:
        console.print(Text(f"Report: {result.folder / 'report.html'}"), soft_wrap=True)


def show_watch_within(watch: "MemorizationWatch") -> None:
    """Print what a watch within a training says: its last look, whether and why it ended it, its rule, its report."""
    console, result = Console(), watch.result()
    looks, stop = result.looks, result.stop
    console.print(Text(f"watch: {looks[-1].words}" if looks else "watch: nothing was looked at"), soft_wrap=True)
    if stop is not None and not looks[-1].go_on:
        outcome = f"it stopped the training at step {looks[-1].step:,}: {RULES[result.options.stop_on]}"
    elif can_stop(result):
        outcome = "it did not stop the training"
    else:
        outcome = "it could not have stopped the training"
    console.print(Text(f"watch: {outcome}"), soft_wrap=True)
    if looks:
        console.print(Text(f"watch: {result.headline}"), soft_wrap=True)
    console.print(Text(f"watch: {result.rule}"), soft_wrap=True)
    for note in result.notes:
        console.print(Text(f"watch: {note}"), soft_wrap=True)
    if (report := watch.report()) is not None:
        console.print(Text(f"watch: {report}"), soft_wrap=True)


def show_watch_plan(plan: "WatchPlan", *, as_json: bool, within: bool = False) -> None:
    """Print what would be evaluated; within a training, whose lines these are, too."""
    if as_json:
        print_json(asdict(plan))
        return
    console = Console()
    steps = f"{len(plan.steps)}" + (f", step {plan.steps[0]:,} to {plan.steps[-1]:,}" if plan.steps else "")
    lines = [
        *([] if within else [("to be looked at now", steps)]),
        ("looks planned", "not known" if plan.looks is None else f"{plan.looks:,}"),
        ("images a look", f"{plan.images:,}"),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("compared by", plan.detector),
        (
            "stops on",
            f"{plan.rule}, error of the first look {plan.error:.2g}, held-out patients needed {plan.needed:,}",
        ),
        ("rule", plan.why),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]
    print_rows(console, lines, before="watch, " if within else "")


def _number(value: float) -> str:
    return f"{value:.4g}" if value == value else ""
