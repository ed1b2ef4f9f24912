"""Several runs as one verdict: the worst of them, and where they do not fit together.

A failure anywhere is a failure. A doubt anywhere, or a contradiction, is a doubt. A pass needs a run that asks about
privacy and passes, and no other word from any: "not tested", "could not be told" and "not asked" never make one.
"""

from collections.abc import Sequence
from itertools import combinations

from memorisk.report.statements.statement import (
    FAIL,
    NOT_ASKED,
    PASS,
    UNDECIDED,
    AuditStatement,
    Part,
    Released,
    Verdict,
)

_NOBODY_ASKS = "no run asks about privacy"


def joined(audits: Sequence[AuditStatement]) -> Verdict:
    """The verdict of all runs together.

    Args:
        audits: What each says.
    """
    said, deciding = [], []
    statuses = {audit.status for audit in audits}
    asked = statuses - {NOT_ASKED}
    against = contradictions(audits)
    status = FAIL if FAIL in asked else PASS if asked == {PASS} and not _doubtful(audits) else UNDECIDED
    for audit in audits:
        if audit.status == status or (status == UNDECIDED and audit.status not in (PASS, NOT_ASKED)):
            said += [f"{audit.kind}: {reason}" for reason in audit.why]
            deciding += [f"{audit.kind}: {way}" for way in audit.what_would_decide]
    if not asked:
        said, deciding = [_NOBODY_ASKS], ["an audit of what is to be released"]
    elif status == UNDECIDED and asked == {PASS}:
        said, deciding = list(against), ["runs on the same training data"]
    return Verdict(
        status=status,
        why=tuple(dict.fromkeys(said)),
        what_would_decide=tuple(dict.fromkeys(deciding)),
        contradictions=tuple(against),
    )


def contradictions(audits: Sequence[AuditStatement]) -> list[str]:
    """Where runs do not fit together, a sentence each.

    Args:
        audits: What each says.
    """
    found = []
    for (i, one), (j, other) in combinations(enumerate(audits), 2):
        both = {one.status, other.status}
        same = set(one.subject.sha256) & set(other.subject.sha256)
        if both == {PASS, FAIL}:
            what = "of the same files" if same else "of different things"
            found.append(
                f"runs {i + 1} ({one.kind}) and {j + 1} ({other.kind}), {what}: one passes and one fails; the failure "
                "counts"
            )
        elif both == {PASS, UNDECIDED} and same:
            found.append(
                f"runs {i + 1} ({one.kind}) and {j + 1} ({other.kind}) are of the same files: one passes and one could "
                "not decide; the doubt counts"
            )
        if _other_people(one, other):
            found.append(
                f"runs {i + 1} ({one.kind}) and {j + 1} ({other.kind}) are of different training data: their numbers "
                "of training images or patients differ"
            )
        elif _read_otherwise(one, other):
            found.append(
                f"runs {i + 1} ({one.kind}) and {j + 1} ({other.kind}) have as much training data, with another "
                "fingerprint: read otherwise, as at another size, or other images"
            )
    return found


def _training(audit: AuditStatement) -> Part | None:
    """What the audited thing was trained on, where the run says so."""
    return next((part for part in audit.data if part.part == "training"), None)


def _other_people(one: AuditStatement, other: AuditStatement) -> bool:
    """Whether two runs compare with training data of different sizes."""
    ours, theirs = _training(one), _training(other)
    if ours is None or theirs is None or ours.fingerprint == theirs.fingerprint:
        return False
    pairs = ((ours.images, theirs.images), (ours.units, theirs.units))
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _read_otherwise(one: AuditStatement, other: AuditStatement) -> bool:
    """Whether two runs have as much training data, and another fingerprint of it."""
    ours, theirs = _training(one), _training(other)
    return ours is not None and theirs is not None and ours.fingerprint != theirs.fingerprint


def _doubtful(audits: Sequence[AuditStatement]) -> bool:
    """Whether runs that pass compare with different training data: nobody knows which is that of the release."""
    asking = [audit for audit in audits if audit.status != NOT_ASKED]
    return any(_other_people(one, other) for one, other in combinations(asking, 2))


def joined_files(found: Sequence[Sequence[Released]]) -> tuple[Released, ...]:
    """Everything that runs are tied to, each file once, with the runs that looked at it.

    Args:
        found: Of each run.
    """
    by_content: dict[tuple[str, str], list[tuple[int, Released]]] = {}
    for number, files in enumerate(found):
        for one in files:
            by_content.setdefault((one.what, one.sha256), []).append((number, one))
    return tuple(
        Released(
            what=what, form=rows[0][1].form, listing=rows[0][1].listing, sha256=sha256, files=rows[0][1].files,
            bytes=next((one.bytes for _, one in rows if one.bytes is not None), None),
            audits=tuple(dict.fromkeys(number for number, _ in rows)),
        )
        for (what, sha256), rows in by_content.items()
    )  # fmt: skip
