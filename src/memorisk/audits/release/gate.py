"""``memorisk gate``: a release goes on only if its statement passes and is about what is being released.

Needs Python's own library alone where a statement is given: neither PyTorch nor an image library is installed where
releases are made, and no patient's image is ever needed there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memorisk.audits.release.joining import joined
from memorisk.report.statement import FAIL, PASS, UNDECIDED, NotWholeError, Released, Statement, read_statement
from memorisk.runs.checksums import Checksum, checksum
from memorisk.runs.errors import InputError, one_line, several, unknown_name

REQUIRE = ("pass", "not-fail")
_SHOWN = 12  # digits of a checksum that a line shows
_TO_DO = {
    FAIL: "do not release it; the statement says why, and the run's report what would help",
    UNDECIDED: "not a pass; the statement says what would decide it",
}


@dataclass(frozen=True)
class Gated:
    """Whether a release may go on."""

    passed: bool
    line: str
    """Why, or why not and what to do."""
    status: str = ""
    """Of the statement; empty where it is not whole."""
    files: tuple[tuple[str, str], ...] = ()
    """What is to be released and is what was audited: path and SHA-256."""
    notes: tuple[str, ...] = ()
    """What must be known besides."""


def gate(
    source: str | Path,
    *,
    weights: Sequence[str | Path] = (),
    images: Sequence[str | Path] = (),
    require: str = "pass",
) -> Gated:
    """Ask whether files may be released under a statement.

    Args:
        source: ``privacy-statement.json``, a folder that holds it, or the folder of a finished run.
        weights: Files of weights that are to be released.
        images: Folders or files of images that are to be released.
        require: ``pass``, or ``not-fail``, which lets through what could not be decided.

    Returns:
        The answer; a statement that is broken or changed does not pass.

    Raises:
        InputError: Nothing is named for release, or something named is not there, or the source is no statement.

    Example:
        >>> gate("release/privacy-statement.json", weights=["model.safetensors"]).passed  # doctest: +SKIP
        True
    """
    if require not in REQUIRE:
        raise unknown_name("requirement", require, REQUIRE)
    if not weights and not images:
        raise InputError("nothing is named for release: name it with --weights FILE or --images FOLDER")
    given = [("weights", Path(path), checksum(path)) for path in weights]
    given += [("images", Path(path), checksum(path)) for path in images]
    try:
        statement = _statement(Path(source))
    except NotWholeError as error:
        return Gated(False, str(error))
    if problem := next(_problems(statement, given, require), None):
        return Gated(False, problem, statement.verdict.status)
    return Gated(
        True,
        _passed(statement, given),
        statement.verdict.status,
        tuple((str(path), found.sha256) for _, path, found in given),
        tuple(_notes(statement, given)),
    )


def _statement(source: Path) -> Statement:
    """The statement that is named, or that of a run.

    Raises:
        InputError: There is none.
    """
    if not source.exists():
        raise InputError(f"there is no {one_line(source)}: name a privacy-statement.json, or a finished run")
    if source.is_file():
        return read_statement(source)
    if (source / "privacy-statement.json").is_file():
        return read_statement(source / "privacy-statement.json")
    from memorisk.audits.release.stating import state  # the run's own libraries are needed

    return Statement.from_json(state(source).as_json(), one_line(source))


def _problems(statement: Statement, given: Sequence[tuple[str, Path, Checksum]], require: str) -> Iterator[str]:
    """Why a release may not go on, the gravest first."""
    verdict, of_runs = statement.verdict, joined(statement.audits).status
    if verdict.status != of_runs:
        yield f"the statement says {verdict.status}, and its runs together {of_runs}: write it again"
    if verdict.status != PASS and not (require == "not-fail" and verdict.status == UNDECIDED):
        why = one_line(verdict.why[0], 200) if verdict.why else "without a reason"
        yield f"the verdict is {verdict.status} ({why}): {_TO_DO[verdict.status]}"
    for what, path, found in given:
        if _of(statement, what, found) is None:
            yield _not_audited(statement, what, path, found)


def _of(statement: Statement, what: str, found: Checksum) -> Released | None:
    """What was audited with this content."""
    return next((one for one in statement.released if (one.what, one.sha256) == (what, found.sha256)), None)


def _not_audited(statement: Statement, what: str, path: Path, found: Checksum) -> str:
    """That something else was audited, and what."""
    known = [one for one in statement.released if one.what == what]
    said = f"{one_line(path, 120)} is not what was audited ({_shown(found)})"
    if not known:
        untied = next((audit.subject.why for audit in statement.audits if audit.subject.why), "")
        because = f" ({one_line(untied, 200)})" if untied else ""
        return f"{said}: the statement is tied to no {what}{because}"
    first = known[0]
    return f"{said}; audited was {_shown(first)}: release that, or audit this and state it again"


def _shown(found: Checksum | Released) -> str:
    """A checksum as a line has room for it."""
    return f"sha256 {found.sha256[:_SHOWN]}..., {several(found.files, 'file', 'files')}"


def _passed(statement: Statement, given: Sequence[tuple[str, Path, Checksum]]) -> str:
    """What passed, under which runs."""
    said = []
    for what, path, found in given:
        one = _of(statement, what, found)
        kinds = ", ".join(dict.fromkeys(statement.audits[n].kind for n in one.audits)) if one else ""
        said.append(f"{one_line(path, 120)} is what was audited ({kinds})")
    return f"{statement.verdict.status}: {'; '.join(said)}"


def _notes(statement: Statement, given: Sequence[tuple[str, Path, Checksum]]) -> Iterator[str]:
    """What a pass does not say."""
    if statement.verdict.status == UNDECIDED:
        yield "could not be decided, and was let through since that was asked for: this is no pass"
    ties = {number for what, _, found in given if (one := _of(statement, what, found)) for number in one.audits}
    for number, audit in enumerate(statement.audits):
        if number not in ties:
            yield f"run {number + 1} ({audit.kind}) is about something else than these files"
    yield from statement.verdict.contradictions
