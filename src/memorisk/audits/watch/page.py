"""Report of a watch: whether memorization begins, of which patients and at which step; next steps, and limits."""

import numpy as np
import pandas as pd

from memorisk.audits.comparison.page_parts import DefinitionRows, footer, repeat_blocks
from memorisk.audits.watch.reasons import RULES
from memorisk.audits.watch.result import Evaluation, WatchResult, evaluation_table
from memorisk.audits.watch.verdict import watch_verdict
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Definitions,
    Fact,
    Figure,
    Name,
    Page,
    Paragraph,
    Section,
    Steps,
    Table,
    Text,
    estimate,
    number,
    words,
)
from memorisk.report.columns import capitalized, column_numbers, count, percent
from memorisk.report.figures.curves import steps_plot
from memorisk.report.first_screen import FirstScreen
from memorisk.report.glance import dots_figure, in_short, limits_of
from memorisk.report.quantities import facts
from memorisk.runs.environment import versions

_CHOSE = (
    "The held-out images of this watch chose, or may choose, the step at which the training ends. For the audit of "
    "what comes out of it they are no held-out images any more: that audit needs patients who had no part in training "
    "or watch. memorisk train generator keeps such a part, test."
)
_FINAL = "The final audit needs held-out patients who had no part in this watch."


def watch_page(result: WatchResult, *, redact: bool = False) -> Page:
    """Lay out the report.

    Args:
        result: Result with its looks.
        redact: Leave out every id.
    """
    looks, table = result.looks, evaluation_table(result.looks)
    sections = [
        Section("Step by step", _curves(table, result) if looks else [Paragraph("There is no look yet.")], "steps"),
        Section("Who is listed", _listed(result, redact), "listed"),
        Section("What it means", _meaning(result), "meaning"),
        Section("What this does not say", [Steps(_not_said(result))], "limits"),
        Section("How it was done", _setup(result, redact), "setup"),
    ]
    return Page(
        title="Does the generator begin to memorize?",
        lead=first_screen(result).blocks(_glance(table, result) if looks else ()),
        sections=sections,
        footer=[Paragraph(footer(versions(), redact))],
        redacted=redact,
    )


def first_screen(result: WatchResult) -> FirstScreen:
    """Show what may be concluded, why, what to do next, and the numbers of the last look.

    Args:
        result: Result with its looks.
    """
    looks = result.looks
    if not looks:
        return FirstScreen(kind="note", headline="Nothing was looked at yet", notes=[result.rule, *result.notes])
    verdict, last = watch_verdict(result), looks[-1]
    planned = "" if result.options.looks is None else f"of {count(result.options.looks)}"
    return FirstScreen(
        kind=verdict.kind,
        headline=verdict.headline,
        sentences=[verdict.sentence],
        lists={"Why": [reason.text for reason in verdict.reasons], "What to do next": verdict.next_steps},
        warnings=dict(result.warnings),
        facts=[
            Fact("Looks", count(len(looks)), planned),
            *facts(last),
            *_shortest_list(last),
            *_image_quality(last, result),
        ],
        tables=_tables(evaluation_table(looks)),
        notes=[*result.notes, _FINAL],
    )


def _shortest_list(look: Evaluation) -> list[Fact]:
    """Say how many patients a list needs at least; nothing where a single one could be listed, or none at all."""
    shortest = look.shortest_list
    if not 1 < shortest <= look.n_train:
        return []
    return [Fact("Shortest possible list", count(shortest), f"no list below {count(shortest)} was possible")]


def _image_quality(look: Evaluation, result: WatchResult) -> list[Fact]:
    """Compare the FID of drawn images with that of as many real ones."""
    if not look.fid_name:
        return []
    n = _compared(look, result)
    beside = f"{look.fid_held_out:.4g} of {count(n)} held-out real images"
    return [Fact(f"Image quality, FID of {count(n)} images", f"{look.fid_same_number:.4g}", beside)]


def _compared(look: Evaluation, result: WatchResult) -> int:
    """Return the number of images, drawn and held-out alike, whose FID is compared."""
    return min(look.n_images, result.real.n_held_images)


def _glance(table: pd.DataFrame, result: WatchResult) -> list[Block]:
    """Draw the memorized share step by step, and the listed patients, or without any the losses of the network."""
    last, share = result.looks[-1], in_short(_share(table, result), "Memorized share, step by step")
    if not last.n_listed and np.isfinite(column_numbers(table, "loss_auc")).any():
        return [share, in_short(_losses(table), "Losses of the network, step by step")]
    if last.n_listed is None:
        return [share]
    return [share, dots_figure(last.n_listed, last.n_train, "training patients", "listed")]


def _share(table: pd.DataFrame, result: WatchResult) -> Figure:
    """Draw the memorized share of each look with its interval."""
    return Figure(
        svg=steps_plot(
            [int(step) for step in table["step"]],
            {"memorized share, 95 %": limits_of(table, "share")},
            y_title="Memorized share",
            reference=(result.options.nominal, "nominal rate"),
            share=True,
        ),
        title="Memorized share",
        caption="Share of training patients who are nearer to the drawn images than the nominal share of held-out "
        "patients are, with its 95 % interval. What stops a training is stricter, since there are several looks.",
        alternative=_spoken(table, "share", percent),
    )


def _curves(table: pd.DataFrame, result: WatchResult) -> list[Block]:
    """Lay out the figures and the table of looks."""
    steps = [int(step) for step in table["step"]]
    columns = {name: table[name].to_numpy(dtype=float) for name in table if name not in ("weights", "fid_name", "note")}
    nothing = np.full(len(steps), np.nan)
    blocks: list[Block] = [_share(table, result)]
    if np.isfinite(columns["fid"]).any():
        blocks.append(_quality(table, columns, result))
    if np.isfinite(columns["held_out_loss"]).any():
        loss = (columns["held_out_loss"], nothing, nothing)
        blocks.append(
            Figure(
                svg=steps_plot(steps, {"held-out loss": loss}, y_title="Held-out loss"),
                title="Held-out loss",
                caption="Loss of the training on images that it does not see. Where it rises, the network fits its "
                "training images at the cost of others.",
                alternative=_spoken(table, "held_out_loss", lambda value: f"{value:.4g}"),
            )
        )
    if np.isfinite(columns["loss_auc"]).any():
        blocks.append(_losses(table))
    return [*blocks, *_tables(table)]


def _losses(table: pd.DataFrame) -> Figure:
    """Draw how well the losses of the network tell training patients from held-out ones."""
    return Figure(
        svg=steps_plot(
            [int(step) for step in table["step"]],
            {"AUC of the losses, 95 %": limits_of(table, "loss_auc")},
            y_title="AUC of the losses",
            reference=(0.5, "no memory"),
        ),
        title="Losses of the network",
        caption="Share of pairs of a training and a held-out patient in which the network's loss on the training "
        "patient is smaller, with its 95 % interval. It rises before drawn images show anyone, and where none do.",
        alternative=_spoken(table, "loss_auc", lambda value: f"{value:.3f}"),
    )


def _quality(table: pd.DataFrame, columns: dict[str, np.ndarray], result: WatchResult) -> Figure:
    """Draw FID of drawn and of held-out images at the same number of either, since it falls with the number."""
    nothing, drawn = np.full(len(table), np.nan), (columns["fid"], columns["fid_low"], columns["fid_high"])
    same, held = columns["fid_same_number"], (columns["fid_held_out"], nothing, nothing)
    numbers = {_compared(look, result) for look in result.looks if look.fid_name}
    n = count(numbers.pop()) if len(numbers) == 1 else "as many"
    fewer = not np.array_equal(same, columns["fid"], equal_nan=True)
    lines = {f"{n} drawn images": (same, nothing, nothing)} if fewer else {f"{n} drawn images, 95 %": drawn}
    caption = [Name(str(table["fid_name"].iloc[-1])), ". It falls with the number of images: compare it with that of "
               "as many real images, and with nothing of another name."]  # fmt: skip
    if fewer:
        caption.append(" Fewer images are held out than drawn: the figure has as many of both, the table has all drawn "
                       "images with their interval.")  # fmt: skip
    return Figure(
        svg=steps_plot(
            [int(step) for step in table["step"]], lines | {f"{n} held-out real images": held},
            y_title="FID (lower is better)",
        ),
        title="Quality",
        caption=caption,
        alternative=_spoken(table, "fid_same_number", lambda value: f"{value:.4g}"),
    )  # fmt: skip


def _tables(table: pd.DataFrame) -> list[Table]:
    """Tabulate the looks: what was memorized, with quality and loss where there are any."""
    step = Column(source="step", heading="Step", format="count", row_heading=True)
    columns = [
        step,
        estimate("share", "Memorized share", "percent"),
        number("share_floor", "Rule's limit", "percent"),
        number("p_value", "p", "probability"),
        number("error", "Its error", "probability"),
        number("listed", "Listed", "count"),
        number("ahead", "Nearest", "count"),
        number("same_pixels", "Exact copies", "count"),
        Column(source="exceeded", heading="Stops", format="yes_no"),
        *([words("note", "Note", wide=True)] if any(table["note"]) else []),
    ]
    caption = (
        "Every look. Rule's limit: the lower limit of the share at the error of this look. Nearest: training patients "
        "nearer to the drawn images than every held-out one. Exact copies: drawn images with the pixels of a training "
        "image, as it is, mirrored or turned"
    )
    tables = [Table(frame=table, columns=columns, caption=caption, elsewhere="looks.parquet")]
    names = ("fid", "held_out_loss", "loss_auc")
    has_fid, has_loss, has_auc = (np.isfinite(table[name].to_numpy(dtype=float)).any() for name in names)
    if has_fid or has_loss or has_auc:
        fid = [
            number("n_images", "Images", "count"),
            estimate("fid", "FID of these", "power"),
            number("fid_same_number", "Of as many as held out", "power"),
            number("fid_held_out", "Held-out images", "power"),
        ]
        loss, auc = number("held_out_loss", "Held-out loss"), estimate("loss_auc", "AUC of the losses")
        others = [step, *(fid if has_fid else []), *([loss] if has_loss else []), *([auc] if has_auc else [])]
        explanation = "Quality and losses at every look" + (
            ". FID falls with the number of images: compare the last two of its columns" if has_fid else ""
        )
        tables.append(Table(frame=table, columns=others, caption=explanation, elsewhere="looks.parquet"))
    return tables


def _listed(result: WatchResult, redact: bool) -> list[Block]:
    """List the patients of the last look that listed any."""
    listed, last = result.listed, result.looks[-1] if result.looks else None
    if last is None:
        return [Paragraph("There is no look yet.")]
    sentences = f"At step {last.step:,}, {count(last.listed)} of {count(last.n_train)} training patients are listed. "
    if last.shortest_list > last.n_train:
        sentences += "No list was possible: there are too few held-out patients for this level."
    else:
        sentences += (
            f"At most {result.options.level:.0%} of a list are expected to be patients no nearer to the images than "
            f"held-out ones are. Lists shorter than {count(last.shortest_list)} were not possible."
        )
    blocks: list[Block] = [Paragraph(sentences)]
    if redact or not last.listed:
        return blocks
    rows = listed.iloc[np.flatnonzero(listed["step"] == last.step)]
    columns = [
        words("patient", "Patient", row=True),
        words("image", "Training image"),
        number("drawn", "Drawn image, from 0", "count"),
        number("distance", "Distance", "power"),
        number("p_value", "p", "probability"),
    ]
    return [*blocks, Table(frame=rows, columns=columns, caption="Listed patients", elsewhere="listed.parquet")]


def _meaning(result: WatchResult) -> list[Block]:
    """Explain the figures."""
    o = result.options
    copies = "" if o.stop_on == "never" else "A drawn image with the pixels of a training image stops it, too. "
    definitions: list[tuple[Text, Text]] = [
        (
            "Memorized share",
            f"A training patient counts who is nearer to the drawn images than all but {o.nominal:.0%} of held-out "
            f"patients are. A generator that knows neither part has {o.nominal:.0%}.",
        ),
        ("What stops", f"{capitalized(RULES[o.stop_on])}. {copies}{result.rule}"),
        (
            "Error",
            f"A training that memorizes nothing is stopped at any of its looks with a probability of at most "
            f"{o.error:.0%}: each look has its part of that" + _divided(o.looks),
        ),
    ]
    return [Definitions(definitions), Callout("warning", "The final audit needs other patients", [Paragraph(_CHOSE)])]


def _divided(looks: int | None) -> str:
    """Say how the looks share the error."""
    if looks is None:
        return ", look k the k (k + 1)-th."
    return f", {looks:,} equal ones." if looks > 1 else ", which for a single look is all of it."


def _not_said(result: WatchResult) -> list[Text]:
    """List what does not follow from a watch."""
    weak = result.real.weak
    fewest, most = (at([look.n_images for look in result.looks] or [result.options.images]) for at in (min, max))
    n = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    limits: list[Text] = [
        f"Whether a set of images may be shared: a look compares {n} {'image' if most == 1 else 'images'} and hides no "
        "known copies among them. Audit the set itself (memorisk audit synthetic).",
        "That those who are not listed are safe: copies that the detector does not see are not counted.",
        "That an earlier step has memorized nothing: memorization grows, and is shown late.",
    ]
    if weak:
        limits.insert(0, "Copies that were turned, cropped or recoloured: pixels are compared, a weak detector.")
    boxed = {text for _, text in result.warnings}
    return [*limits, *(Name(note) for note in result.notes if note not in boxed)]


def _setup(result: WatchResult, redact: bool) -> list[Block]:
    """List the settings that repeat the watch."""
    o, real = result.options, result.real
    settings: DefinitionRows = [
        ("Training", f"{count(real.n_train_images)} images of {count(real.n_train_patients)} patients"),
        ("Held out", f"{count(real.n_held_images)} images of {count(real.n_held_patients)} patients"),
        ("Detector", Name(real.detector)),
        ("Features", Name(real.features)),
        ("Images a look", count(o.images)),
        ("Stops on", o.stop_on + ("" if result.may_stop else ", noted only")),
        ("Looks in a row", count(o.patience)),
        *_sampling(result),
        ("Seed", str(o.seed)),
        *([] if redact else [("Fingerprint, training", Name(real.train_hash))]),
        *([] if redact else [("Fingerprint, held out", Name(real.held_hash))]),
    ]
    return repeat_blocks(settings, (), versions(), redact)


def _sampling(result: WatchResult) -> list[tuple[Text, Text]]:
    """Say how images were drawn, as far as the generator has such settings; a user's own sample has none."""
    if result.generator is None:
        return []
    settings = result.options.sampling().settings_of(result.generator)
    return [("Sampling", ", ".join(f"{name} {value}" for name, value in settings.items()))]


def _spoken(table: pd.DataFrame, column: str, how) -> str:
    """Word the drawn values in a sentence."""
    points = [(step, value) for step, value in zip(table["step"], table[column], strict=True) if value == value]
    sample = points if len(points) <= 12 else [*points[:6], *points[-6:]]
    return "; ".join(f"step {step:,}: {how(value)}" for step, value in sample) + "."
