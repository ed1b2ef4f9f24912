"""Description of a watch in a statement: of a training, and of no set. A watch never clears anything."""

from memorisk.audits.release.integrity import FinishedAudit
from memorisk.audits.release.model_descriptions import OF_IMAGES, SEEDED, count_or_none, settings_of_run, stated
from memorisk.audits.watch.evaluations import read_evaluations
from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.reasons import LookByItself, NoProof, StoppedAt
from memorisk.audits.watch.verdict import blind_looks, copies_drawn, pixel_doubts, shows_memorization
from memorisk.report.quantities import stated_figures
from memorisk.report.statements.statement import (
    DRAWN_PIXELS,
    FAIL,
    UNDECIDED,
    AuditStatement,
    Figure,
    Method,
    Part,
    Subject,
)
from memorisk.statistics.multiple_testing.stopping import should_stop
from memorisk.statistics.verdicts.reasons import Reason

_DRAWN_TITLE = "Drawn images that are training images, at the look with the most"


def describe_watch(run: FinishedAudit) -> AuditStatement:
    """Describe a watch: a failure where its rule stopped the training or it drew training images, else undecided.

    Args:
        run: Finished run of the kind ``watch``.
    """
    looks = read_evaluations(run.tables["looks"])
    settings, last = run.config["run"], looks[-1]
    options = WatchOptions(stop_on=settings["stop_on"], nominal=float(settings["nominal"]))
    exceeded = [bool(look.exceeded) for look in looks]
    patience = int(settings.get("patience", 1))
    stop = next((look for i, look in enumerate(looks) if should_stop(exceeded[: i + 1], patience)), None)
    speaks = [look for look in looks if shows_memorization(look)]
    ids = settings.get("id_doubts", [])
    reasons: list[Reason] = [] if (copies := copies_drawn(looks)) is None else [copies]
    if stop is not None and not stop.same_pixels:
        reasons.append(StoppedAt(n_step=stop.step, rule=options.stop_on))
    if not reasons:
        reasons.append(NoProof())
        if (blind := blind_looks(options, looks)) is not None:
            reasons.insert(0, blind)
        if speaks:
            reasons.insert(0, LookByItself(n_step=speaks[0].step))
    reasons += (doubts := pixel_doubts(looks))
    ways = [one.remedy for one in reasons if isinstance(one, NoProof) or one in doubts]
    return AuditStatement(
        kind="watch",
        question="Does the generator begin to memorize while it is trained?",
        status=UNDECIDED if stop is None and copies is None else FAIL,
        gate=str(settings.get("stop_on", "")),
        reasons=stated([*reasons, *ids]),
        what_would_decide=(*ways, *(one["remedy"] for one in ids)),
        subject=Subject(what="training", why="A training was looked at, and no set that is to be released."),
        data=(
            Part(part="training", fingerprint=str(settings["training"]), units=count_or_none(last.n_train)),
            Part(part="held out", fingerprint=str(settings["held_out"]), units=count_or_none(last.n_held)),
        ),
        units="patients",
        n_units=count_or_none(last.n_train),
        n_models=None,
        level=float(settings["error"]),
        correction="one error for all looks of the training",
        figures=(
            Figure(name="looks", title="Looks", value=len(looks)),
            Figure(name=DRAWN_PIXELS, title=_DRAWN_TITLE, value=max(look.same_pixels for look in looks)),
            *stated_figures(last),
        ),
        not_examined=("Images that were not drawn for a look.", *OF_IMAGES),
        assumptions=(
            "Held-out images are a random part, by patient, of the data that the generator is trained on.",
            "They had no part in the training; as they may have ended it, they cannot serve the final audit.",
            SEEDED,
        ),
        limits=("Memorization grows and is shown late: earlier steps may have memorized, too.",),
        method=Method(
            name="Memorized share of training patients beside held-out ones, look by look, and a stopping rule",
            source="METHODS section 5, applied to every look",
            page="watch.md",
        ),
        seeds=(int(settings.get("seed", 0)),),
        settings=settings_of_run(settings, ("images", "looks", "nominal", "level", "stop_on", "error", "patience")),
        versions={},
        run_sha256=run.sha256,
    )  # fmt: skip
