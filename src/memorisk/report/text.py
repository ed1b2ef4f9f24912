"""Text of unknown origin, made safe to read: invisible characters are shown, and those that reorder a line disarmed.

HTML escaping (by the templates) keeps a name from being executed; this module keeps it from deceiving the reader.
"""

import unicodedata

from markupsafe import Markup, escape

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINER = "\u200d"


def visible_parts(text: str) -> list[tuple[str, bool]]:
    r"""Split a text into runs, each with whether it is an escape for a character that cannot be seen.

    Control and format characters (line breaks, direction marks, zero-width characters), lone surrogates and unassigned
    code points become escapes such as ``\u202e``. A joiner inside an emoji stays, since it is visible there.
    """
    parts: list[tuple[str, bool]] = []
    run = ""
    for i, character in enumerate(text):
        if unicodedata.category(character) in _INVISIBLE and not _joins_emoji(text, i):
            if run:
                parts.append((run, False))
            parts.append((_NAMED.get(character) or character.encode("unicode_escape").decode("ascii"), True))
            run = ""
        else:
            run += character
    return [*parts, (run, False)] if run else parts


def visible(text: object) -> str:
    """Return the text on one line with invisible characters as escapes; plain text, for titles and figures."""
    return "".join(part for part, _ in visible_parts(str(text)))


def name_html(text: object) -> Markup:
    """Return a name as HTML: escaped, isolated from the text direction around it, invisible characters marked."""
    parts = visible_parts(str(text))
    if not parts:
        return Markup('<span class="esc">(empty)</span>')
    inner = Markup("").join(Markup('<span class="esc">{}</span>').format(p) if e else escape(p) for p, e in parts)
    return Markup("<bdi>{}</bdi>").format(inner)


def shorten(text: str, limit: int) -> str:
    """Cut a text to about ``limit`` letters' width (see :func:`text_width`), with an ellipsis."""
    if text_width(text) <= limit:
        return text
    shortened, width = "", _character_width("\N{HORIZONTAL ELLIPSIS}")
    for character in text:
        width += _character_width(character)
        if width > limit:
            break
        shortened += character
    return shortened + "\N{HORIZONTAL ELLIPSIS}"


def elided(text: str, limit: int) -> str:
    """Cut the middle out of a text that is longer than a limit: ids often differ at their ends alone.

    Spaces at the cut are left out, so that it divides no name into two.

    Args:
        text: Text.
        limit: Largest number of characters.

    Example:
        >>> elided("1.2.840.113619.2.55.3.2831164355.0203", 17)
        '1.2.840.…355.0203'
    """
    if len(text) <= limit:
        return text
    end = (limit - 1) // 2
    first, last = text[: limit - 1 - end], text[len(text) - end :]
    return f"{first.rstrip()}\N{HORIZONTAL ELLIPSIS}{last.lstrip()}"


def text_width(text: str) -> float:
    """Return a text's width in average small letters of a proportional font, rounded up generously."""
    return sum(_character_width(c) for c in text)


def _character_width(character: str) -> float:
    if unicodedata.combining(character) or character == _JOINER or unicodedata.category(character) == "Mn":
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 2.0
    if character in "mwMW%@\N{EM DASH}\N{HORIZONTAL ELLIPSIS}":
        return 1.6
    return 1.25 if character.isupper() else 1.0


def _joins_emoji(text: str, i: int) -> bool:
    """Return whether the character at ``i`` is a zero-width joiner between two pictures."""
    if text[i] != _JOINER or i == 0 or i + 1 == len(text):
        return False
    return unicodedata.category(text[i - 1]) in {"So", "Sk", "Mn"} and unicodedata.category(text[i + 1]) == "So"
