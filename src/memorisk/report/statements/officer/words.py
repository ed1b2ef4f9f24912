"""Words of the officer's page that all of its parts share."""

from collections.abc import Callable, Sequence

from memorisk.report.blocks import Link, Name, Strong, Text
from memorisk.report.kinds import kind_of
from memorisk.report.statements.statement import AuditStatement, Statement


def of_each(statement: Statement, say: Callable[[AuditStatement], str]) -> str:
    """Join the sentences on all audits, each with its name where there are several; equal sentences come once."""
    names: dict[str, list[str]] = {}
    for audit in statement.audits:
        names.setdefault(say(audit), []).append(kind_of(audit.kind).subject)
    several = len(statement.audits) > 1
    named = (
        (f"{capital(' and '.join(dict.fromkeys(of)))}: " if several else "", sentence) for sentence, of in names.items()
    )
    return joined([name + sentence for name, sentence in named if sentence])


def either(names: Sequence[str]) -> str:
    """Join names by commas, the last by "or"."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def joined(sentences: Sequence[str]) -> str:
    """Join different sentences of several audits, one after the other."""
    return " ".join(text if text.endswith(".") else f"{text}." for text in dict.fromkeys(sentences))


def capital(text: str) -> str:
    """Begin a sentence with a capital letter."""
    return text[:1].upper() + text[1:]


def plain_words(text: Text) -> str:
    """Return the words of a text; a table's cell isolates all of them as it does a name."""
    pieces = [text] if isinstance(text, (str, Name, Strong, Link)) else text
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)
