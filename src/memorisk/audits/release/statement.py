"""``memorisk statement``: a privacy statement for machines and a section for a model card, from finished runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memorisk import __version__
from memorisk.audits.release.binding import Binding, ReleaseFiles, bind
from memorisk.audits.release.gate import STATEMENT, merge_files, worst_verdict
from memorisk.audits.release.integrity import FinishedAudit, open_finished_audit
from memorisk.audits.rendering import refuse_no_page
from memorisk.images.sources.overlap import path_sources, refuse_overlap
from memorisk.report.kinds import kind_of, load_part
from memorisk.report.statements.envelope import PAYLOAD_TYPE, Envelope
from memorisk.report.statements.model_card import model_card
from memorisk.report.statements.signatures import read_private_key
from memorisk.report.statements.signatures import sign as make_signature
from memorisk.report.statements.statement import OFFICER_TITLE, PASS, UNDECIDED, AuditStatement, StatedReason, Statement
from memorisk.runs.checksums import files_below
from memorisk.runs.errors import InputError, one_line, read_guard
from memorisk.runs.files import write_bytes, write_text
from memorisk.runs.folder import CONFIG
from memorisk.runs.locks import folder_lock
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.verdicts.reasons import Reason, Words

CARD = "model-card.md"


@dataclass(frozen=True)
class StatementFiles:
    """Files of a statement that was written."""

    statement: Statement
    folder: Path
    """Folder with ``privacy-statement.json`` and ``model-card.md``."""


def make_statement(
    runs: str | Path | Sequence[str | Path],
    *,
    weights: Sequence[str | Path] = (),
    images: Sequence[str | Path] = (),
    progress: Progress = no_progress,
) -> Statement:
    """Make one statement of what finished runs say of what is to be released; nothing is written.

    Args:
        runs: Folders of finished runs: audits, filters, loops, watches, figures of quality.
        weights: Files of weights that are to be released: the runs must have looked at them.
        images: Folders or files of images that are to be released: the runs must have looked at them.
        progress: Called with (stage, done, total).

    Raises:
        InputError: A run is unfinished, changed since, or of a kind that says nothing of a release; or something that
            is to be released is not what any run looked at.
    """
    offered = ReleaseFiles(tuple(Path(path) for path in weights), tuple(Path(path) for path in images))
    statement, bound = state_runs(runs, offered, progress)
    _refuse_unknown(offered, bound)
    return statement


def state_runs(
    runs: str | Path | Sequence[str | Path], offered: ReleaseFiles, progress: Progress = no_progress
) -> tuple[Statement, list[Binding]]:
    """Make one statement of finished runs, and return with it what each of them is tied to.

    Args:
        runs: Folders of finished runs, as `make_statement` takes them.
        offered: Files that are to be released; files that no run looked at are not refused yet.
        progress: Called with (stage, done, total).

    Raises:
        InputError: A run is unfinished, changed since, or of a kind that says nothing of a release; or what is to be
            released is not there.
    """
    places = [runs] if isinstance(runs, str | Path) else list(runs)
    folders = [Path(run) for run in places]
    if not folders:
        raise InputError("no run: name the folder of a finished one")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise InputError("a run is named twice: name each once")
    for path in (*offered.weights, *offered.images):
        if not path.exists():
            raise InputError(f"there is no {one_line(path)}: name what is to be released")
        if path.is_dir() and not files_below(path):
            raise InputError(f"{one_line(path)} holds no file: name what is to be released")
    audits, bound = [], []
    for folder in folders:
        with open_finished_audit(folder) as run:
            audit, tie = _describe_and_bind(run, offered, progress)
        audits.append(audit)
        bound.append(tie)
    released = merge_files([one.released for one in bound])
    statement = Statement(memorisk=__version__, verdict=worst_verdict(audits), released=released, audits=tuple(audits))
    return statement, bound


def write_statement(
    runs: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    weights: Sequence[str | Path] = (),
    images: Sequence[str | Path] = (),
    sign: str | Path | None = None,
    passphrase: str | None = None,
    page: str | Path | None = None,
    progress: Progress = no_progress,
) -> StatementFiles:
    """Write ``privacy-statement.json`` and ``model-card.md``; the same runs give the same bytes.

    Args:
        runs: Folders of finished runs, as `make_statement` takes them.
        out: A folder: new, empty, or one that holds a statement to be replaced.
        weights: Files of weights that are to be released, as `make_statement` takes them.
        images: Folders of images that are to be released, as `make_statement` takes them.
        sign: File of an Ed25519 private key that signs the statement.
        passphrase: Place of the passphrase of that key: ``env:NAME`` or ``file:PATH``.
        page: An HTML file for one printed side in plain words, and its appendix; replaced where it is one already.
        progress: Called with (stage, done, total).

    Raises:
        MissingExtraError: A key is given and cryptography is not installed.
        InputError: As `make_statement`, or the key cannot be used, or ``out`` is something else; nothing was written.

    Example:
        >>> found = write_statement("runs/synthetic", images=["shared/kept"], out="release")  # doctest: +SKIP
        >>> found.statement.verdict.status  # doctest: +SKIP
    """
    folder = Path(out)
    places = [runs] if isinstance(runs, str | Path) else list(runs)
    sheet = None if page is None else Path(page)
    _check_places(folder, [Path(run) for run in places], [Path(path) for path in images], sheet)
    private = None if sign is None else read_private_key(sign, passphrase)
    statement = make_statement(runs, weights=weights, images=images, progress=progress)
    document, card = statement.as_in_toto().as_bytes(), model_card(statement)
    side = None if sheet is None else _render(statement)
    if private is not None:
        signature = make_signature(document, PAYLOAD_TYPE, private)
        document = Envelope(payload=document, payload_type=PAYLOAD_TYPE, signatures=(signature,)).as_bytes()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder_lock(folder):
        (folder / STATEMENT).unlink(missing_ok=True)  # a card is never next to the statement of other runs
        write_text(folder / CARD, card)
        if sheet is not None and side is not None:
            write_text(sheet, side)
        write_bytes(folder / STATEMENT, document)
    (folder / ".lock").unlink(missing_ok=True)
    return StatementFiles(statement, folder)


def write_officer_page(
    runs: str | Path | Sequence[str | Path],
    page: str | Path,
    *,
    weights: Sequence[str | Path] = (),
    images: Sequence[str | Path] = (),
    progress: Progress = no_progress,
) -> Statement:
    """Write the page for the data-protection officer alone, and return the statement that it shows.

    Args:
        runs: Folders of finished runs, as `make_statement` takes them.
        page: HTML file for the page, as `write_statement` takes it.
        weights: Files of weights that are to be released, as `make_statement` takes them.
        images: Folders of images that are to be released, as `make_statement` takes them.
        progress: Called with (stage, done, total).

    Raises:
        InputError: As `make_statement`, or ``page`` is something else; nothing was written.
    """
    places = [runs] if isinstance(runs, str | Path) else list(runs)
    _check_places(None, [Path(run) for run in places], [Path(path) for path in images], Path(page))
    statement = make_statement(runs, weights=weights, images=images, progress=progress)
    write_text(Path(page), _render(statement))
    return statement


def _render(statement: Statement) -> str:
    """Render the page for the data-protection officer; what renders is loaded only where it is needed."""
    from memorisk.report.page import render_page
    from memorisk.report.statements.officer.page import officer_page

    return render_page(officer_page(statement))


def _describe_and_bind(run: FinishedAudit, offered: ReleaseFiles, progress: Progress) -> tuple[AuditStatement, Binding]:
    """Describe a run, and bind it to the files it looked at."""
    audit = describe_run(run)
    with read_guard(run.folder):
        try:
            tie = bind(run, audit.subject, offered, progress)
        except OSError as error:  # of what is to be released, not of the run
            where = one_line(error.filename or run.folder, 120)
            raise InputError(f"{where} cannot be read: {one_line(error.strerror or error, 80)}") from None
    return _add_unread(replace(audit, subject=tie.subject), tie, of_volumes=run.config.get("frames") == "volume"), tie


def _add_unread(audit: AuditStatement, tie: Binding, *, of_volumes: bool) -> AuditStatement:
    """Tell which files of a set were not read; unless the release is known to be without them, it does not pass."""
    if not tie.unread:
        return audit
    reasons = "; ".join(f"{n:,} {why}" for why, n in Counter(tie.unread).most_common())
    sentence = f"Files of the audited set that were not read: {reasons}."
    audit = replace(audit, not_examined=(sentence, *audit.not_examined))
    if tie.released or audit.status != PASS:
        return audit
    unread = FilesUnread(n_files=len(tie.unread), of_volumes=of_volumes)
    reasons, ways = (StatedReason.of(unread), *audit.reasons), (unread.remedy, *audit.what_would_decide)
    return replace(audit, status=UNDECIDED, reasons=reasons, what_would_decide=ways)


class FilesUnread(Reason, code="files-unread"):
    """Files of the audited folder that no audit read."""

    n_files: int
    text = Words("the folder that was audited holds {n_files:file|files} that no audit read")
    plain = Words("{n_files:file|files} of the set could not be read")
    of_volumes: bool = False
    """Whether the set is one of volumes, of which memorisk release writes none."""

    @Words
    def remedy(self) -> str:
        if self.of_volumes:
            return "an audit of the set without them"
        return "the set without them (memorisk release SET OUT), named with --images"


def describe_run(run: FinishedAudit) -> AuditStatement:
    """Describe a run that is not bound to any file yet.

    Args:
        run: Finished and unchanged.

    Raises:
        InputError: Another memorisk wrote it, without numbers that are needed, or its files are damaged.
    """
    with read_guard(run.folder):
        return load_part(kind_of(run.kind).statement)(run)


def _refuse_unknown(offered: ReleaseFiles, bound: Sequence[Binding]) -> None:
    """Refuse what is to be released and was not looked at.

    Raises:
        InputError: There is such a thing.
    """
    used = {path for one in bound for path in one.used}
    for what, paths in (("weights", offered.weights), ("images", offered.images)):
        for path in paths:
            if path not in used:
                why = next((one.refused[path] for one in bound if path in one.refused), "")
                raise InputError(
                    f"--{what} {one_line(path)} is not what any of these runs looked at"
                    + (f" ({why})" if why else "")
                    + ": audit it, or name what was audited"
                )


def _check_places(out: Path | None, runs: Sequence[Path], images: Sequence[Path], page: Path | None) -> None:
    """Refuse a folder or a page that holds something else, or that would change what was audited.

    Raises:
        InputError: It does.
    """
    inside = page is not None and out is not None and _is_in(page, out)
    if out is not None and out.exists() and not out.is_dir():
        raise InputError(f"--out {one_line(out)} is a file: name a folder")
    if page is not None:
        refuse_no_page(page, option="--page", inside=inside, mark=f"{OFFICER_TITLE}</title>")
    if out is not None:
        _check_folder(out, {STATEMENT, CARD, ".lock", *([page.name] if inside and page is not None else [])})
    sources = [
        *((f"the run {one_line(run)}", run) for run in runs),
        *((f"the images {one_line(p)}", p) for p in images),
    ]
    for place in (out, None if inside else page):
        if place is not None:
            refuse_overlap(place, path_sources(dict(sources)))


def _check_folder(out: Path, own: set[str]) -> None:
    """Refuse a folder with files that no statement wrote.

    Raises:
        InputError: It has some.
    """
    if out.is_dir() and (odd := sorted({p.name for p in out.iterdir()} - own)):
        what = "is a run folder" if CONFIG in odd else f"holds other files ({one_line(odd[0], 60)})"
        raise InputError(f"--out {one_line(out)} {what}: name a new or empty folder for the statement")


def _is_in(page: Path, out: Path) -> bool:
    """Return whether a file lies in a folder itself."""
    return page.absolute().parent == out.absolute()
