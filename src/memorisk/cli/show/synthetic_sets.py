"""Terminal output of synthetic sets: generated, filtered or synthesized ones, plans and quality.

`show_table_three` puts finished runs of ``memorisk synthesize`` together (paper 004, table 3).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from memorisk.audits.filter.result import FamilyCost, FilterNumbers, FilterSummary
from memorisk.audits.quality.page import transfer_warnings
from memorisk.audits.quality.result import Quality
from memorisk.audits.synthesize.result import LoopNumbers, LoopSummary
from memorisk.cli.show.common import percent, print_json, print_list, print_rows
from memorisk.report.columns import is_missing, power
from memorisk.report.numbers import from_json, to_json
from memorisk.report.result import Result
from memorisk.report.statements.statement import WAYS
from memorisk.statistics.intervals import Proportion

if TYPE_CHECKING:
    from memorisk.audits.filter.run import FilterPlan
    from memorisk.audits.quality.run import QualityPlan
    from memorisk.audits.synthesize.plan import SynthesizePlan
    from memorisk.training.generators.generation import GeneratedSet, GeneratePlan


def show_generated_set(generated: "GeneratedSet", *, as_json: bool) -> None:
    """Print how many images of what, and where they lie."""
    summary = generated.summary
    if as_json:
        print_json(summary)
        return
    console = Console()
    lines = [
        ("generator", f"{summary['generator']['name']} ({summary['source']})"),
        ("images", f"{summary['images']:,}"),
        *(("of each class", _counts(summary["classes"])) for _ in range(bool(summary["classes"]))),
        *(("note", note) for note in summary["notes"]),
        ("set", str(generated.folder)),
    ]
    print_rows(console, lines)


def show_generate_plan(plan: "GeneratePlan", *, as_json: bool) -> None:
    """Print what drawing a set would take."""
    from memorisk.audits.classifier.dry_run import duration

    if as_json:
        print_json(asdict(plan))
        return
    console = Console()
    lines = [
        ("generator", plan.generator),
        ("images", f"{plan.images:,} of {' x '.join(map(str, plan.size))}"),
        *(("of each class", _counts(plan.classes)) for _ in range(bool(plan.classes))),
        *(("by the conditions of", f"{plan.sources:,} training images") for _ in range(bool(plan.sources))),
        ("time", f"about {duration(plan.seconds)} on this machine, by a first batch of {plan.first_batch:,}"),
        ("bytes", f"about {plan.bytes:,}"),
        *plan.cost.rows(),
    ]
    print_rows(console, lines)


def _counts(classes: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in classes.items())


def show_filter(result: Result, out: Path, *, as_json: bool) -> None:
    """Show the verdict in a sentence, its numbers, and where set and report lie."""
    if as_json:
        print_json(result.verdict)
        return
    console, n = Console(), from_json(FilterSummary, result.summary).numbers
    print_rows(console, _filter_lines(n))
    _show_verdict(console, result, n, out)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def _show_verdict(console: Console, result: Result, n: FilterNumbers, out: Path) -> None:
    """Print the verdict of a filter or of a loop: why, the ways out, what is promised besides, and the kept set."""
    from memorisk.audits.filter.wording import NO_PROMISE, conclusion, unpromised_words  # here, since it loads images

    console.print()
    _, headline, sentence = conclusion(result.status, n)
    console.print(Text(headline.upper(), style="bold"))
    console.print(Text(sentence), soft_wrap=True)
    for reason in result.why:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    print_list(console, WAYS.get(result.status, ""), result.what_would_decide)
    promise = n.promise
    promised = [promise.guarantee, unpromised_words(promise)] if promise.guarantee else []
    promised += [NO_PROMISE.format(why="; ".join(promise.doubts))] if promise.doubts else []
    print_list(console, "What is promised besides", promised)
    if n.sets.n_kept_images:
        console.print(Text(f"Kept set: {out / 'kept'}"), soft_wrap=True)
    if n.audited is not None:
        console.print(Text(f"Its audit: {out / n.audited.folder / 'report.html'}"), soft_wrap=True)


def show_filter_plan(plan: "FilterPlan", *, as_json: bool) -> None:
    """Print what would be compared and could be promised."""
    if as_json:
        print_json(to_json(plan))
        return
    from memorisk.audits.comparison.terms import Terms
    from memorisk.audits.filter.wording import excluded_words  # here, since it loads images

    console = Console()
    lines = [
        ("images", ", ".join(f"{what} {n:,}" for what, n in plan.images.items())),
        ("unreadable synthetic images, rejected", f"{plan.unreadable:,}"),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("calibration patients left out", f"{plan.exclusions.left_out.n:,}"),
        *(("calibration", clause) for clause in excluded_words(plan.exclusions, Terms("patients"))),
        *(("detector", name) for name in plan.detectors),
        *(("copies", f"{f.family}: {f.identities:,} identities of {f.needed:,} needed") for f in plan.families),
        ("identities missing for the guarantee", f"{plan.missing:,}"),
        *_audit_lines(plan),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]
    print_rows(console, lines)
    _print_costs(console, plan.costs, plan.detectors)


def _print_costs(console: Console, costs: Sequence[FamilyCost], detectors: Sequence[str]) -> None:
    """Print a table of what the threshold of each family leaves out, of synthetic images only where there are some."""
    if not costs:
        return
    from memorisk.audits.filter.choice import none_affordable  # here, since it loads images

    shares = {"new people left out": [cost.new for cost in costs]}
    if any(cost.synthetic is not None for cost in costs):
        shares["synthetic images left out"] = [cost.synthetic for cost in costs]
    columns = [
        ["copies", *(cost.family for cost in costs)],
        ["threshold", *(", ".join(f"{threshold:.3g}" for threshold in cost.thresholds) for cost in costs)],
        *([title, *map(_share_or_unknown, column)] for title, column in shares.items()),
        ["", *("promised" if cost.promised else "not promised" for cost in costs)],
    ]
    widths = [max(map(len, column)) for column in columns]
    console.print()
    for row in zip(*columns, strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(Text("  ".join(cells).rstrip()), soft_wrap=True)
    if not any(cost.promised for cost in costs):
        console.print(Text(none_affordable(costs, detectors)), soft_wrap=True)


def _share_or_unknown(share: Proportion | None) -> str:
    return "not known" if share is None else percent(share.estimate, share.low, share.high)


def _audit_lines(plan: "FilterPlan | SynthesizePlan") -> list[tuple[str, str]]:
    """Return what audits the kept set, and what keeps a pass away whatever is kept."""
    return [("kept images audited by", plan.audited_by), *(("no pass", why) for why in plan.lacking)]


def _filter_lines(n: FilterNumbers) -> list[tuple[str, str]]:
    from memorisk.audits.filter.wording import exposed_lines  # here, since it loads images

    lines = [
        ("synthetic images", f"{n.sets.n_synthetic_images:,}, kept {n.sets.n_kept_images:,}"),
        *_screening_lines(n),
    ]
    if n.sets.filtered:
        lines += exposed_lines(n)
    if (real := n.real_rejected) is not None:
        share = percent(real.estimate, real.low, real.high)
        lines.append(("real images of new people that would be rejected", share))
    return lines


def _screening_lines(n: FilterNumbers) -> list[tuple[str, str]]:
    """Return what was rejected, which detector rejected it, and who calibrated it."""
    from memorisk.audits.filter.wording import excluded_words  # here, since it loads images

    rejected = ", ".join(f"{images:,} {reason}" for reason, images in n.sets.rejected.items() if images)
    missing = n.promise.n_missing_patients
    return [
        ("rejected", f"{n.sets.n_rejected_images:,}" + (f" ({rejected})" if rejected else "")),
        (
            f"calibration {n.units}",
            f"{n.calibration.n_calibration_patients:,}; missing for the guarantee {missing:,}",
        ),
        *(("calibration", clause) for clause in excluded_words(n.calibration.exclusions, n.terms)),
        ("compared by", "; ".join(n.promise.detectors)),
        *([] if n.audited is None else [("kept images audited by", "; ".join(n.audited.detectors))]),
    ]


def show_synthesis(result: Result, out: Path, *, as_json: bool) -> None:
    """Show the verdict in a sentence, its numbers, and where set and report lie."""
    if as_json:
        print_json(result.verdict)
        return
    console, loop = Console(), from_json(LoopSummary, result.summary).numbers
    n = loop.filter
    print_rows(console, _synthesis_lines(loop))
    _show_verdict(console, result, n, out)
    if n.sets.filtered:
        console.print(Text(f"Ledger: {out / 'ledger.csv'}"), soft_wrap=True)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def show_synthesis_plan(plan: "SynthesizePlan", *, as_json: bool) -> None:
    """Print what would be drawn and could be promised."""
    if as_json:
        print_json(to_json(plan))
        return
    from memorisk.audits.comparison.terms import Terms
    from memorisk.audits.filter.wording import excluded_words  # here, since it loads images

    console, new = Console(), plan.new_rejected
    lines = [
        ("generator", plan.generator),
        ("images that are to pass", f"{plan.images:,}, up to {plan.most_tries:,} tries each"),
        *(("class", f"{name}: {n:,}") for name, n in plan.classes.items()),
        *([("training images whose conditions take part", f"{plan.sources:,}")] if plan.sources else []),
        *(
            (what, f"{n['images']:,} images, {n['patients']:,} patients")
            for what, n in (("training", plan.training), ("calibration", plan.calibration))
        ),
        ("calibration patients left out", f"{plan.exclusions.left_out.n:,}"),
        *(("calibration", clause) for clause in excluded_words(plan.exclusions, Terms("patients"))),
        *(("detector", name) for name in plan.detectors),
        *(
            ("copies", f"{f.family}: {f.identities:,} identities of {f.needed:,} needed")
            for f in plan.families
        ),
        ("identities missing for the guarantee", f"{plan.missing:,}"),
        *([("rejected of new patients", percent(new.estimate, new.low, new.high, 0))] if new else []),
        *_audit_lines(plan),
        ("seconds of drawing", f"{plan.seconds:,.0f} if all pass at once, {plan.most_seconds:,.0f} at most "
                               f"(by a batch of {plan.first_batch:,})"),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]  # fmt: skip
    print_rows(console, lines)
    _print_costs(console, plan.costs, plan.detectors)


def show_table_three(table: pd.DataFrame, *, as_json: bool) -> None:
    """Show paper 004's table 3."""
    from memorisk.audits.synthesize.table_three import rate_words  # here, since it loads networks

    if as_json:
        print_json(table.to_dict(orient="records"))
        return
    console = Console()
    for row in table.to_dict(orient="records"):
        console.print(
            Text(f"{row['conditioning']} ({row['generator']}, {row['n']:,} images)", style="bold"), soft_wrap=True
        )
        for figure, form in (("fid", _number), ("irs", _number), ("memrate", _share)):
            parts = [f"{what} {_limits(row, f'{figure}_{what}', form)}" for what in ("before", "kept", "reference")]
            console.print(Text(f"  {figure.upper() if figure != 'memrate' else 'MemRate'}: {'; '.join(parts)}"),
                          soft_wrap=True)  # fmt: skip
        console.print(Text(f"  features {row['features']}; {rate_words(row)}"), soft_wrap=True)


def _limits(row: dict[Any, Any], name: str, form: Any) -> str:
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if value != value:
        return "not known"
    return form(value) if low != low else f"{form(value)} [{form(low)}, {form(high)}]"


def _number(value: float) -> str:
    return f"{value:.3f}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _synthesis_lines(n: LoopNumbers) -> list[tuple[str, str]]:
    from memorisk.audits.filter.wording import exposed_lines, promised_kinds  # here, since it loads images
    from memorisk.audits.synthesize.verdict import empty_places

    lines = [
        ("images", f"{n.filter.sets.n_kept_images:,} kept of {n.n_asked:,} asked for, {n.n_drawn:,} drawn"),
        *_screening_lines(n.filter),
    ]
    if n.filter.sets.filtered:
        lines += exposed_lines(n.filter)
    if n.n_empty:
        lines.append(("places", empty_places(n)))
    if (copies := n.bounded) is not None:
        heading = f"copies made by {promised_kinds(n.filter.promise)} among the kept images"
        most = f"at most {100 * copies.high:.2g} %" if copies.high < 1 else "any share"
        lines.append((heading, f"{most} (95 % limit); of other copies nothing is promised"))
    return lines


def show_quality(quality: Quality, out: Path, *, as_json: bool) -> None:
    """Print one line per figure, with that of held-out real images, and where the report lies."""
    if as_json:
        print_json(quality.as_json())
        return
    console = Console()
    for line in (*_quality_lines(quality.figures), *(() if quality.transfer is None else _compared(quality.transfer))):
        console.print(Text(line), soft_wrap=True)
    for doubt in quality.numbers.ids.reasons:
        console.print(Text(f"Doubt: {doubt.text}: {doubt.remedy}."), soft_wrap=True)
    console.print(Text("Quality says nothing about privacy: memorisk audit synthetic does."), soft_wrap=True)
    console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)


def show_quality_plan(plan: "QualityPlan", *, as_json: bool) -> None:
    """Print what would be measured."""
    if as_json:
        print_json(asdict(plan))
        return
    console = Console()
    lines = [
        ("images", ", ".join(f"{what} {n:,}" for what, n in plan.images.items())),
        ("patients", ", ".join(f"{what} {n:,}" for what, n in plan.patients.items())),
        ("left out", f"{plan.left_out:,} held-out patients with a training image"),
        ("features", ", ".join(plan.features)),
        ("figures", ", ".join(plan.figures)),
        ("reference", f"{plan.n_reference:,} held-out images" if plan.n_reference else "none: no held-out images"),
        *plan.cost.rows(),
        *(("note", note) for note in plan.notes),
    ]
    print_rows(console, lines)


def _quality_lines(frame: pd.DataFrame) -> Iterator[str]:
    """Yield one line per figure, with that of held-out images at the same number."""
    for row in frame.to_dict("records"):
        line = f"{row['name']}: {_quality_limits(row, 'estimate', 'low', 'high')}"
        if row["n_reference"]:
            if row["n_reference"] < row["n_synthetic"]:
                at_number = _quality_limits(row, "same_number", "same_number_low", "same_number_high")
                line += f"; of {row['n_reference']:,} of them {at_number}"
            line += f"; held-out real images {_quality_limits(row, 'reference', 'reference_low', 'reference_high')}"
        yield line


def _compared(frame: pd.DataFrame) -> Iterator[str]:
    """Yield one line per measure of the classifiers, and what must be known of them."""
    for row in frame.to_dict("records"):
        arms = [f"{name} {_quality_limits(row, name, f'{name}_low', f'{name}_high')}" for name in ("synthetic", "real")]
        difference = _quality_limits(row, "difference", "difference_low", "difference_high")
        yield f"{row['measure']} on held-out real patients, trained on {', on '.join(arms)}; difference {difference}"
    yield from (f"Warning: {text}" for text in transfer_warnings(frame.to_dict("records")[0]))


def _quality_limits(row: dict[Any, Any], name: str, low: str, high: str) -> str:
    """Return a number with its interval, where it has one."""
    if is_missing(row[name]):
        return "-"
    if is_missing(row[low]):
        return power(row[name])
    return f"{power(row[name])} ({power(row[low])} to {power(row[high])})"
