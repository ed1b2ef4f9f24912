"""Ids: one rule for the names of images, patients, classes and splits, whatever source they come from.

`normal_id` gives an id its one form: without blanks around it, in composed Unicode, without invisible characters.
Ids of equal form are one. `refuse_placeholders` refuses words for an unknown id: they would make one person of many.
`id_doubts` finds what no rule can settle: ids that look alike and may be one person, and numbers
that lost their digits, so that one id may be many people. Such doubts prevent a pass.
"""

import functools
import hashlib
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

from memorisk.runs.errors import DamagedError, InputError, listed, plural
from memorisk.statistics.verdicts.reasons import Gravity, Reason, Words

_UNSEEN = re.compile(
    "[\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters without a glyph: controls, soft hyphens, joiners, fillers, marks of direction, variation selectors, tags,
places of objects. Blanks are none of them, nor are ASCII controls, which names of files may have."""
_AROUND = "\0"
"""Padding of DICOM values and of texts of a fixed length, removed at both ends together with blanks."""

_ACCENTED = re.compile("([0-9a-z])[\u0300-\u036f]+")
"""Latin letter or digit with its accents, apart as in the normal form D."""

MISSING = frozenset(
    ("na", "nan", "nat", "null", "nil", "missing", "unknown", "unk", "unkn", "undefined", "unspecified")
)
"""Words of programs and people for a value that is not known, in letters and digits of lower case."""
_WITHHELD = re.compile(
    r"none|anon|deid|removed|deleted|hidden|masked|censored|confidential|blank|empty|void|unnamed|unassigned|tbd|leer"
    r"|fehlt|tests?|testing|demo|dummy|default|johndoe|janedoe|doejohn|doejane|mustermann"
    r"|(?:(?:ge|de)?(?:anon[iy]m|pseudon[iy]m)|deident|redact|withheld|unbekannt|desconocid|desconhecid|sconosciut"
    r"|inconnu|onbekend|okand|ukjent|ukendt|tuntemat|nieznan|neznam|bilinmiy|ismeretlen|necunoscut|неизвестн|невідом"
    r"|аноним|анонім|αγνωστ|ανωνυμ|entfernt|gelosch|geschwarzt|supprim|verwijder|eliminad|rimoss|fehlend|manquant"
    r"|faltant|mancant|ontbreek)[^\W\d_]*"
    r"|(?:氏名|患者|姓名)?(?:未知|匿名|不明|不详|不詳|無名|无名|佚名|익명|미상)"
)
"""Words of several languages for an unknown or withheld name and for a test, in the form of `_folded`; stems with any
ending. Words that are family names, or that occur in codes, are none of them."""
_NOT_GIVEN = re.compile(
    r"(?:no|none|not|non|nicht|keine?|ohne|sans|sin|senza|sem|geen|niet|ikke|inte)"
    r"(?:given|data|available|applicable|provided|known|set|id|name|patient|recorded|entered|specified|stated|assigned"
    r"|reported|collected|value|angaben?|daten|angegeben|bekannt|verfugbar|name|renseigne|disponible|connue?|nom|datos"
    r"|nombre|dati|nome|dados|bekend|ingevuld|naam){1,3}"
)
"""Negations with what is not there, joined: ``notrecorded``, ``keineangabe``, ``nopatientid``."""
_KINDS = frozenset(
    (
        "patient",
        "patients",
        "patientid",
        "pat",
        "subject",
        "person",
        "case",
        "id",
        "name",
        "mrn",
        "data",
        "phi",
        "pii",
        "by",
    )
)
"""Words that name the kind of an id and do not identify a person, as in ``Anonymous Patient``."""
_HEADING = re.compile(r"(?:patient|subject|person|case)(?:id|name|no|nr|number)|patients?|subjects?|id|name|mrn")
"""Name of a column of ids, joined, in the place of an id."""
_NO_ENTRY = re.compile(r"k\. ?A\.?|N\. ?N\.|[nN]/[dDkKsS]|\\N")
"""Short forms that only marks and case distinguish from initials: "keine Angabe", "nomen nescio", "not known"; and the
missing value of MySQL."""
_NO_DATE = re.compile(
    r"(?:1900|1970|0*1)-0?1-0?1|0?1([./])0?1\1(?:1900|1970)|1899-12-3[01]|30\.12\.1899"
    r"|9999-12-31|31\.12\.9999|12/31/9999"
)
"""Dates on which the calendars of programs begin and end, which they write for a missing one."""
_MIDNIGHT = re.compile(r"[ t]00:00.*")
_OF_NOTHING = frozenset(
    hashlib.new(name, usedforsecurity=False).hexdigest() for name in ("md5", "sha1", "sha224", "sha256", "sha512")
)
"""Hashes of an empty id, which hash tools make of a missing one."""
_MISSING_CODE = re.compile(r"-(1|9+)")
"""Codes of tables for a missing number: ``-1``, ``-9``, ``-99``."""
_NINES = re.compile(r"9{4,}")
_SHEET_ERROR = re.compile(r"#([^\W\d_]+(/0)?[!?]|N/[ADV]|NV|REF|VALUE|NAME|NULL|NUM|DIV/0)", re.IGNORECASE)
"""Errors of spreadsheets, which in every language end in a mark: ``#REF!``, ``#BEZUG!``, ``#NOM?``."""
_CROSSED_OUT = re.compile(r"x{3,}", re.IGNORECASE)
_POINT_ZERO_AT_END = re.compile(r"(?<=[^\W_])[.,]0+$")
_NUMBER_AT_END = re.compile(r"[\W_]*[0-9]+$")
_WORDS = re.compile(r"[\W_]+")
_SHORT_MONTHS = (
    "jan|feb|fev|gen|ene|sty|lut|mar|mrt|mrz|kwi|apr|abr|avr|mai|mag|maj|may|mei|jun|giu|cze|jul|lug|lip|ago|aug|aou|sie"
    "|sep|set|wrz|oct|okt|ott|out|paz|nov|lis|dec|dez|dic|des|gru|janv|fevr|mars|avri|juin|juil|aout|sept"
)
"""Months in the short forms of spreadsheets in Czech, Dutch, English, French, German, Italian, Polish, Portuguese,
Spanish and Scandinavian languages, without accents."""
_LONG_MONTHS = (
    "january|february|march|april|june|july|august|september|october|november|december|januar|februar|marz|juni"
)
_TIME = r"[0-9]{1,2}:[0-5][0-9](:[0-5][0-9])?(\.[0-9]+)?( ?[ap]\.?m\.?)?(z|[+-][0-9]{2}:?[0-9]{2})?"
_YEAR = r"(19|20)[0-9]{2}"
_MONTH = rf"({_SHORT_MONTHS}|{_LONG_MONTHS})"
_OF_MONTH = "(0?[1-9]|[12][0-9]|3[01])"
_DATE_LIKE = re.compile(
    rf"{_OF_MONTH}[-. /]+{_MONTH}\.?([-. /]+[0-9]{{2,4}})?|{_MONTH}\.?[-. /]+([0-9]{{1,2}}[-, /]+)?[0-9]{{2,4}}"
    rf"|{_MONTH}\.? {_OF_MONTH}|({_OF_MONTH}[./-]{_OF_MONTH}[./-]{_YEAR}|{_YEAR}[./-]{_OF_MONTH}[./-]{_OF_MONTH})"
    rf"([ t]+{_TIME})?|{_TIME}|({_YEAR}年)?{_OF_MONTH}月{_OF_MONTH}日"
)
"""Dates and times of day in the form of `_folded`, as spreadsheets of several countries write them."""
_POWER = re.compile(r"([^\W\d_]{1,8}[-_ ]?)?[0-9][.,][0-9]+ ?(e\+|[x×*] ?10\^)[0-9]{1,3}|[0-9][.,][0-9]+ ?e[0-9]{1,3}")
"""Number with a point and an exponent, with a sign also behind letters: ``1.23457e11``, ``P1.23457E+11``."""
_SHEET_DIGITS = 15
"""Number of digits that a spreadsheet keeps of a number; it writes zeros for the others."""
_CUT = re.compile(rf"[1-9][0-9]{{{_SHEET_DIGITS - 1}}}0+")
_SHORTEST_MONTH = 3
_RUN = re.compile(r"(?P<number>[0-9]+)|[^\W\d_]+")
_SCIENTIFIC = re.compile(r"[+-]?\d+([.,]\d*)?[eE][+-]\d+")
_MONTHS = "jan|feb|m[aä]r|mrz|apr|ma[yi]|jun|jul|aug|sep|o[ck]t|nov|de[cz]"
_DAY = re.compile(
    rf"\d{{1,2}}[-. ]+({_MONTHS})\.?([- ]+\d{{2,4}})?|({_MONTHS})-\d{{2,4}}|\d{{4}}-\d\d-\d\d[ T]00:00(:00)?",
    re.IGNORECASE,
)
"""Dates as spreadsheets show or save them: ``1-Mar``, ``Mar-21``, ``1-Mar-21``, ``2021-03-01 00:00:00``."""
_VALUE = re.compile(r"[0-9]+([.,][0-9]*)?e\+[0-9]{1,2}")
"""Whole numbers as programs write them: ``1.2e+5``."""
_BARE_VALUE = re.compile(r"[0-9]+([.,][0-9]+)?e[0-9]{1,2}")
"""The same without a sign, which is a name as well: ``1E5`` is a place on a plate, too."""
_POINT_ZERO = re.compile(r"(?<![0-9.,])([0-9]+)[.,]0+(?![0-9.,])")
"""Number with zeros after its point, which programs append to whole numbers; parts of longer chains are none."""
_AUTHORITY = re.compile(r"(?<=[^^])\^{3}[^^].*")
"""Issuer of an id in HL7 version 2 (CX), after two empty components: ``A1^^^H1``."""
_MARKS = "".join(sorted({*string.punctuation, *string.whitespace} - {*"+<>"}))
"""Characters that separate or enclose parts of an id; signs are parts."""
_ENDS = _MARKS.replace("-", "")
_BETWEEN = re.compile(f"[{re.escape(_MARKS)}]+")
_ZEROS = re.compile(rf"[+-]?0+(?:[{re.escape(_MARKS)}]+0+)*")
_LAST_ZERO = re.compile(r"(.*?)(0+)([.,]0+)?")
_DIGITS = re.compile("[0-9]{1,18}")
_INSIDE = re.compile(rf"(?<=[^\W_])[{re.escape(_MARKS)}]+(?=[^\W_])")
_PLUS = re.compile(r"\+(?=[0-9])")
_DIGIT_BESIDE_LETTER = re.compile(r"(?<=[0-9])-(?=[^0-9-])|(?<=[^0-9-])-(?=[0-9])")
_OTHER_SCRIPTS = re.compile(r"(\^[^=]*)=.*")
_DIGIT = re.compile("[0-9]")
_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_LATIN = dict(zip("авекмнорстухіјѕԛԝαβεζηικμνορτυχı", "abekmhopctyxijsqwabezhikmnoptyxi", strict=True))
"""Cyrillic and Greek letters, and the Latin ones whose capitals print alike.

Source:
    ``confusables.txt`` of Unicode Technical Standard 39, capital letters; Python has no such table.
"""
OF_PATIENTS = {
    "IssuerOfPatientID": "issuers",
    "PatientBirthDate": "birth dates",
    "PatientName": "names",
    "PatientSex": "sexes",
}
"""DICOM tags of which a patient has one value, with their names in words."""
_OTHER_SEX = "O"
"""Value of PatientSex that excludes none: "other", written for a missing one as well."""
STUDY = "StudyInstanceUID"
"""Column of the study of each image, where the source has one: all images of a study show one person."""
OF_ONE_PATIENT = {
    STUDY: ("study-of-several", "study has", "studies have"),
    "SeriesInstanceUID": ("series-of-several", "series has", "series have"),
    "SOPInstanceUID": ("instance-of-several", "SOP instance has", "SOP instances have"),
    "FrameOfReferenceUID": ("frame-of-several", "frame of reference has", "frames of reference have"),
}
"""DICOM tags of objects that belong to one patient, with the doubt's code, and with their names in words."""
_OF_THE_STANDARD = "1.2.840.10008."
"""Beginning of identifiers that the standard gave, such as frames of reference of atlases, which patients share."""
LOOK_ALIKES = "look-alikes"
"""Code of the doubt about ids that look alike."""


def normal_id(value: str) -> str:
    """Return the one form of an id.

    Example:
        >>> normal_id(" p7 "), normal_id("p" + chr(0x200B) + "7")
        ('p7', 'p7')
    """
    if value.isascii() and value.isprintable():
        return value.strip().strip(_AROUND).strip()
    return unicodedata.normalize("NFC", _UNSEEN.sub("", value)).strip().strip(_AROUND).strip()


def normal_ids(values: Iterable[str]) -> list[str]:
    """Return the one form of each of many ids, of which most occur often."""
    values = list(values)
    forms = {value: normal_id(value) for value in set(values)}
    return [forms[value] for value in values]


def normal_label(label: str) -> str:
    """Return the one form of a label; of several findings joined by ``|`` the form of each."""
    return "|".join(normal_id(part) for part in label.split("|"))


def _folded(text: str) -> str:
    """Return a text in lower case, without accents on Latin letters, and with one form of each width of characters."""
    folded = text.casefold()
    if folded.isascii():
        return folded
    folded = _ACCENTED.sub(r"\1", unicodedata.normalize("NFKD", text).casefold()).replace("\u2212", "-")
    return unicodedata.normalize("NFC", folded)


def looks_missing(value: str) -> bool:
    """Return whether a value is a word for one that is not known, or holds no letter and no digit."""
    folded = _folded(value)
    plain = _WORDS.sub("", folded)
    return bool(value) and (plain in MISSING or not plain or _SHEET_ERROR.fullmatch(folded) is not None)


def is_placeholder(group: str) -> bool:
    """Return whether an id is a placeholder: a word for an unknown or withheld one, ``-99``, x's; not an empty id.

    Example:
        >>> [is_placeholder(name) for name in ("ANON", "Patient, unknown", "xxxx", "Anna")]
        [True, True, True, False]
    """
    folded = _POINT_ZERO_AT_END.sub("", _folded(group))
    words = [word for word in _WORDS.split(folded) if word]
    return (
        looks_missing(group)
        or looks_missing(folded)
        or _MISSING_CODE.fullmatch(folded) is not None
        or _NO_DATE.fullmatch(_MIDNIGHT.sub("", folded)) is not None
        or _NO_ENTRY.fullmatch(group) is not None
        or any(name.fullmatch("".join(words)) for name in (_CROSSED_OUT, _HEADING, _NOT_GIVEN))
        or "".join(words) in _OF_NOTHING
        or _withheld(words)
    )


def _withheld(words: Sequence[str]) -> bool:
    """Return whether words name an unknown or withheld person, whatever follows a "by"."""
    of_person = [word for word in words if word not in _KINDS]
    matches = [word in MISSING or _WITHHELD.fullmatch(word) is not None for word in of_person]
    by = words.index("by") if "by" in words else 0
    joined = "".join(words)
    return (
        bool(matches and all(matches))
        or any(_WITHHELD.fullmatch(one) for one in (joined, joined.removesuffix("patient")))
        or (by > 0 and _withheld(words[:by]))
    )


def _counts_from(zero: str, groups: set[str]) -> bool:
    """Return whether an id of zeros is the first number of a count, and not a placeholder.

    In a count of n ids, of which some may be left out, the next number is small; in numbers drawn from a large range,
    as hospitals use them, it is large. The function compares its square with n. Numbers of the count have the form of
    its zero: ``000`` begins 001, 002, and not 1, 2.
    """
    form = _LAST_ZERO.fullmatch(zero)
    if form is None:
        return False
    before, digits, after = form[1], form[2], form[3] or ""
    others = [
        int(middle)
        for group in groups
        if group.startswith(before) and group.endswith(after) and group != zero
        if _DIGITS.fullmatch(middle := group[len(before) : len(group) - len(after)])
        if middle == f"{int(middle):0{len(digits)}d}"
    ]
    padded = len(digits) == 1 or any(number < 10 ** (len(digits) - 1) for number in others)
    return bool(others) and padded and min(others) ** 2 <= len(groups)


def _unexplained(nines: str, groups: set[str]) -> bool:
    """Return whether a number of nines is not explained by the other ids: few have its length, none is its neighbour.

    Fewer than one in a thousand of the numbers of its length is an id, so that chance makes one of nines as rarely.
    """
    n_alike = sum(len(group) == len(nines) and group.isdecimal() for group in groups) - 1
    return 1000 * n_alike < 10 ** len(nines) and str(int(nines) - 1) not in groups


def _lone_numbered(groups: set[str]) -> set[str]:
    """Return words for an unknown or withheld person with a number (``Anon 1``) that no other id has.

    With several numbers, as in ``anon_001`` to ``anon_240``, they are pseudonyms.
    """
    by_word: dict[str, list[str]] = {}
    for group in groups:
        word, n = _NUMBER_AT_END.subn("", _folded(group))
        if n and _withheld([part for part in _WORDS.split(word) if part not in MISSING | {""}]):
            by_word.setdefault(word, []).append(group)
    return {ids[0] for ids in by_word.values() if len(ids) == 1} if len(groups) > 1 else set()


def placeholders(groups: Iterable[str]) -> list[str]:
    """Return the ids that are placeholders, sorted."""
    ids = set(groups)
    names = {group for group in ids if is_placeholder(group)} | _lone_numbered(ids)
    for group in ids - names:
        folded = _POINT_ZERO_AT_END.sub("", _folded(group))
        if _ZEROS.fullmatch(folded) and not _counts_from(group, ids):
            names.add(group)
        if _NINES.fullmatch(folded) and _unexplained(folded, ids):
            names.add(group)
    return sorted(names)


def refuse_placeholders(groups: Sequence[str], way_out: str) -> None:
    """Refuse ids that are placeholders.

    Args:
        groups: Id of each image, [N]; empty where an image has none.
        way_out: Further remedies for the message.

    Raises:
        InputError: Some ids are placeholders.
    """
    if names := placeholders(groups):
        n = sum(map(Counter(groups).__getitem__, names))
        raise InputError(
            f"{plural(n, 'image has', 'images have')} the patient id {listed(names, 3)}, which looks like none and "
            f"would make one person of them: leave such ids empty, rename them if they are names{way_out}"
        )


@functools.cache
def _in_ascii(character: str) -> str:
    """Return the ASCII character that a lower-case letter, a digit, or a mark of another script looks like in print."""
    category = unicodedata.category(character)
    if category == "Pd" or character == "\u2212":
        return "-"
    if not character.isascii() and (category[0] in "PZ" or category == "Sk"):
        return " "
    return _LATIN.get(character) or str(unicodedata.decimal(character, character))


def _plain(name: str) -> str:
    """Return an id without case and accents, and in ASCII where it looks the same there."""
    plain = _folded(name)
    return plain if plain.isascii() else "".join(map(_in_ascii, plain))


def _whole(value: str) -> str:
    """Return a number in digits if it is a whole one, or as it is."""
    number = Decimal(value.replace(",", "."))
    return f"{number.to_integral_value():f}" if number == number.to_integral_value() else value


def skeletons(name: str) -> tuple[str, str]:
    """Return the parts of an id that do not depend on how it is written: with the marks inside it, and without.

    Ids of one skeleton look alike. It has no case, no accents, no leading zeros, no marks at its ends, and numbers,
    digits and letters in one form. A mark between two digits or two letters stays, as one dash: ``1-23`` and ``12-3``
    are two ids. The skeleton of a DICOM name in several scripts (``Yamada^Tarou=山田^太郎``) is that of the first one.

    The bare skeleton has no marks, no exponent and no issuer, and may be that of several people (`_bare_alikes`).

    Args:
        name: Id as it is written.
    """
    plain = _OTHER_SCRIPTS.sub(r"\1", _plain(name).strip(_ENDS)).rstrip(_ENDS)
    plain = _POINT_ZERO.sub(r"\1", _PLUS.sub("", plain, count=1) if plain.startswith("+") else plain)
    if _VALUE.fullmatch(plain):
        plain = _whole(plain)
    bare = _whole(plain) if _BARE_VALUE.fullmatch(plain) else _INSIDE.sub("", _AUTHORITY.sub("", plain))
    plain = _DIGIT_BESIDE_LETTER.sub("", _BETWEEN.sub("-", plain))
    return _LEADING_ZEROS.sub("", plain) or name, _LEADING_ZEROS.sub("", bare) or name


def _bare_alikes(bares: Mapping[str, str], sure: set[str]) -> dict[str, str]:
    """Return the skeletons that look like a bare one, ``12-345-678`` like ``12345678``, by skeleton.

    Marks separate parts in honest ids: patient 23 of site 1 is ``1-23``, and another source counts to ``123``. Chance
    makes such pairs where the numbers of one length are densely used. A pair therefore counts only where pairs of its
    length and letters are 1,000 times as many as ids drawn at random would make, and where no second id of other marks
    (``12-3``) has its bare skeleton.

    Args:
        bares: Bare skeleton of each skeleton.
        sure: Skeletons whose pairs count in any case.
    """
    written = {skeleton: bare for skeleton, bare in bares.items() if skeleton != bare}
    owners = Counter(written.values())
    pairs = {one: bare for one, bare in written.items() if bares.get(bare) == bare and owners[bare] == 1}
    if not pairs:
        return {}
    n_written, n_pairs = (Counter(_DIGIT.sub("0", bare) for bare in of.values()) for of in (written, pairs))
    n_bare = Counter(_DIGIT.sub("0", bare) for one, bare in bares.items() if one == bare)

    def unlikely(form: str) -> bool:
        """Return whether chance does not explain the pairs of a length and letters."""
        expected = n_written[form] * n_bare[form]
        return 1000 * expected < n_pairs[form] * 10 ** form.count("0")

    return {one: bare for one, bare in pairs.items() if one in sure or unlikely(_DIGIT.sub("0", bare))}


def look_alikes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the sets of names that differ by their form alone, each sorted.

    Example:
        >>> look_alikes(["007", "7.0", "7", "8", "P-1", "p1"])
        [('007', '7', '7.0'), ('P-1', 'p1')]
    """
    by_skeleton: dict[str, list[str]] = {}
    bares: dict[str, str] = {}
    sure: set[str] = set()
    for name in sorted(set(names) - {""}):
        skeleton, bare = skeletons(name)
        by_skeleton.setdefault(skeleton, []).append(name)
        bares.setdefault(skeleton, bare)
        if _AUTHORITY.search(name):
            sure.add(skeleton)
    for skeleton, bare in _bare_alikes(bares, sure).items():
        by_skeleton[bare] += by_skeleton.pop(skeleton)
    return sorted(tuple(sorted(alike)) for alike in by_skeleton.values() if len(alike) > 1)


def look_alikes_across(ours: set[str], theirs: set[str]) -> list[tuple[str, ...]]:
    """Return the sets of names that look alike and have members in both of two sets."""
    return [
        names for names in look_alikes(ours | theirs) if not ours.isdisjoint(names) and not theirs.isdisjoint(names)
    ]


class IdsInDoubt(Reason, code="ids-in-doubt", gravity=Gravity.FIRST):
    """Doubts about the identity of people, in the words of `IdDoubt`, without ids."""

    doubt: str
    way: str
    text = Words("{doubt}")
    plain = Words(
        "it is not sure which images are of one person: ids look alike, are rounded, contradict each other or were "
        "taken for classes"
    )
    remedy = Words("{way}")


@dataclass(frozen=True)
class IdDoubt:
    """Doubt about the identity of people, which no rule can settle."""

    code: str
    """Name of the doubt's kind; in sentences of a verdict two doubts of one code are one."""
    why: str
    """Reason of the doubt in one sentence, without ids."""
    what_would_decide: str
    """Remedy that would settle the doubt."""
    ids: tuple[str, ...]
    """Ids in doubt; of the files of a run folder only manifests hold them."""

    @property
    def words(self) -> str:
        """Return the doubt, with its first ids where it has any, for users who hold the images."""
        ids = f" ({listed(list(self.ids), 5)})" if self.ids else ""
        return f"{self.why}{ids}: {self.what_would_decide}."

    @property
    def without_ids(self) -> "IdDoubt":
        """Return the doubt without ids, for all other readers."""
        return replace(self, ids=())


def look_alike_doubt(alike: Sequence[tuple[str, ...]]) -> IdDoubt:
    """Return the doubt that ids that look alike belong to one person.

    Args:
        alike: Sets of ids that look alike, at least one set.
    """
    return IdDoubt(
        LOOK_ALIKES,
        f"{plural(len(alike), 'set of patient ids looks', 'sets of patient ids look')} alike, each perhaps one person",
        "give one person one id, and different people ids that differ by more than case, accents, leading zeros, "
        "punctuation, alphabet and the form of numbers",
        tuple(" and ".join(names) for names in alike),
    )


def _made_by_sheets(ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids that a spreadsheet made of others, by their form.

    Ids of some forms are dates or rounded in any table. Others are honest where most ids have them, as dates of visits,
    or where ids of the same make are none: ``12:30`` is an id where another is ``12:99``.
    """
    sure = [bool(_SCIENTIFIC.fullmatch(name) or _DAY.fullmatch(name)) for name in ids]
    folded = [_folded(name) for name in ids]
    of_sheets = [bool(_DATE_LIKE.fullmatch(name) or _POWER.fullmatch(name) or _CUT.fullmatch(name)) for name in folded]
    makes = [_make(name) for name in folded]
    others = {make for make, like, certain in zip(makes, of_sheets, sure, strict=True) if not (like or certain)}
    if sum(of_sheets) * 2 >= len(ids):
        return tuple(name for name, certain in zip(ids, sure, strict=True) if certain)
    return tuple(
        name
        for name, certain, like, make in zip(ids, sure, of_sheets, makes, strict=True)
        if certain or (like and make not in others)
    )


def _make(folded: str) -> str:
    """Return the sequence of digits, letters, words and marks of an id; of digits alone, their number."""
    if folded.isdecimal():
        return f"{len(folded)} digits"
    return _RUN.sub(lambda run: "9" if run["number"] else "word" if len(run[0]) >= _SHORTEST_MONTH else "a", folded)


def id_doubts(groups: Iterable[str], matters: Callable[[tuple[str, ...]], bool] = lambda alike: True) -> list[IdDoubt]:
    """Find the doubts that ids alone raise.

    Args:
        groups: Id of each image that has one, in the form of `normal_id`.
        matters: Function that returns whether it matters that a set of ids that look alike is one person.
    """
    ids = sorted(set(groups))
    alike = [names for names in look_alikes(ids) if matters(names)]
    rounded_ids = _made_by_sheets(ids)
    doubts = [look_alike_doubt(alike)] if alike else []
    if rounded_ids:
        count = plural(
            len(rounded_ids), "patient id is a rounded number or a date", "patient ids are rounded numbers or dates"
        )
        doubts.append(
            IdDoubt(
                "lost-digits",
                f"{count}, as spreadsheets make of ids, so that several people may have one",
                "write the ids anew as text from where they come from",
                rounded_ids,
            )
        )
    return doubts


@dataclass(frozen=True, kw_only=True)
class DoubtedIds:
    """Doubts about the identity of people in the numbers of a result, without ids."""

    id_doubt: str = ""
    """Reasons of the doubts; empty without a doubt."""
    id_doubt_way: str = ""
    """Remedies that would settle the doubts."""
    id_doubt_codes: tuple[str, ...] = ()
    """Codes of the doubts, sorted; empty in runs made before doubts had codes."""

    @classmethod
    def of(cls, doubts: Sequence[IdDoubt]) -> "DoubtedIds":
        """Return the doubts in words."""
        return cls(
            id_doubt="; ".join(doubt.why for doubt in doubts),
            id_doubt_way="; ".join(doubt.what_would_decide for doubt in doubts),
            id_doubt_codes=tuple(sorted({doubt.code for doubt in doubts})),
        )

    @property
    def reasons(self) -> list[Reason]:
        """Return the reason why nothing passes; an empty list without a doubt."""
        return [IdsInDoubt(doubt=self.id_doubt, way=self.id_doubt_way)] if self.id_doubt else []


NO_DOUBT = DoubtedIds()


def header_doubts(patients: Sequence[str], headers: Mapping[str, Sequence[str]]) -> list[IdDoubt]:
    """Find patients whose DICOM headers contradict each other.

    Values that look alike are one; placeholders are none.

    Args:
        patients: Id of each image; empty ids are ignored.
        headers: Values of each image, by tag.
    """
    doubts = []
    way_out = "give each person an id of their own (--labels-csv TABLE --group-column COLUMN)"
    for tag, what in OF_PATIENTS.items():
        values = _header_values(headers.get(tag, [""] * len(patients)))
        if contradictions := with_several(patients, values):
            count = plural(len(contradictions), "patient id has", "patient ids have")
            why = f"{count} several {what}, perhaps of several people"
            doubts.append(IdDoubt(tag, why, way_out, tuple(contradictions)))
        if tag != "IssuerOfPatientID":
            continue
        without = {patient for patient, value in zip(normal_ids(patients), values, strict=True) if not value}
        partly = sorted(
            without & {patient for patient, value in zip(normal_ids(patients), values, strict=True) if value}
        )
        if names := tuple(name for name in partly if name and name not in contradictions):
            count = plural(len(names), "patient id has", "patient ids have")
            why = f"{count} an issuer in some images and none in others, perhaps of several people"
            doubts.append(IdDoubt(f"{tag}-in-part", why, way_out, names))
    return doubts


def _header_values(values: Sequence[str]) -> list[str]:
    """Return values of a tag without what is form alone; empty where they are placeholders."""
    forms = {
        value: "" if value == _OTHER_SEX or is_placeholder(value) else skeletons(value)[1]
        for value in map(normal_id, set(values))
        if value
    }
    return [forms.get(normal_id(value), "") for value in values]


def study_doubts(studies: Sequence[str], patients: Sequence[str]) -> list[IdDoubt]:
    """Doubt the ids of studies that have images of several patients (`shared_object_doubts`)."""
    return shared_object_doubts({STUDY: studies}, patients)


def shared_object_doubts(objects: Mapping[str, Sequence[str]], patients: Sequence[str]) -> list[IdDoubt]:
    """Doubt the ids of objects that have images of several patients: each belongs to one person.

    Args:
        objects: Object of each image, by the tags of `OF_ONE_PATIENT`; empty ones are ignored, and so are
            patients of a larger object that is named already.
        patients: Id of each image; empty ones are ignored.
    """
    doubts: list[IdDoubt] = []
    named: set[tuple[str, ...]] = set()
    for tag, (code, one, several) in OF_ONE_PATIENT.items():
        owners = ["" if owner.startswith(_OF_THE_STANDARD) else owner for owner in objects.get(tag, ())]
        mixed = [ids for ids in with_several(owners, patients).values() if ids not in named] if owners else []
        named.update(mixed)
        if mixed:
            why = f"{plural(len(mixed), one, several)} images of several patient ids, perhaps of one person"
            way_out = "give one person one id (--labels-csv TABLE --group-column COLUMN)"
            doubts.append(IdDoubt(code, why, way_out, tuple(" and ".join(ids) for ids in mixed)))
    return doubts


def with_several(owners: Sequence[str], values: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the owners that have several values, with the values; empty ones are ignored."""
    held: dict[str, set[str]] = {}
    for owner, value in zip(normal_ids(owners), normal_ids(values), strict=True):
        if owner and value:
            held.setdefault(owner, set()).add(value)
    return {owner: tuple(sorted(of)) for owner, of in sorted(held.items()) if len(of) > 1}


def doubts_to_json(doubts: Iterable[IdDoubt]) -> list[dict[str, Any]]:
    """Return doubts in JSON's own types."""
    return [asdict(doubt) | {"ids": list(doubt.ids)} for doubt in doubts]


def doubts_from_json(values: Any) -> tuple[IdDoubt, ...]:
    """Return the doubts that `doubts_to_json` wrote.

    Raises:
        DamagedError: The values have another form.
    """
    try:
        return tuple(
            IdDoubt(str(v.get("code", "")), str(v["why"]), str(v["what_would_decide"]), tuple(map(str, v["ids"])))
            for v in values
        )
    except (TypeError, LookupError, AttributeError):
        raise DamagedError("the doubts about ids in a manifest are damaged: restore it, or make it anew") from None
