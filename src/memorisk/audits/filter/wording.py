"""The fixed wording of the filter's report, apart from the layout, so that a checker of its claims reads one file."""

from collections.abc import Mapping

from memorisk.audits.comparison.terms import Terms
from memorisk.audits.filter.result import Exclusions, ExposedPatients, FilterNumbers, Promise
from memorisk.audits.synthetic import wording as audited
from memorisk.report.blocks import Kind, Text
from memorisk.report.columns import count, percent
from memorisk.report.texts import read_texts
from memorisk.runs.errors import plural

_TEXTS = read_texts("memorisk.audits.filter")

SCORE, PIXELS, NO_SCORE = "score", "same pixels", "no score"
UNREADABLE, NOT_FILTERED = "unreadable", "not filtered"
REASONS: dict[str, str] = {
    SCORE: "A training image scores as high as the threshold or higher.",
    PIXELS: "It has the very pixels of a training image, as it is, mirrored or turned.",
    NO_SCORE: "Its features are not finite, or the measure is undefined for them.",
    UNREADABLE: "It could not be read, so that nothing is known of it.",
    NOT_FILTERED: "There is no threshold.",
}
"""Why an image is not kept."""

NO_THRESHOLD = "Nothing was kept: the guarantee needs more people"
NOTHING_KEPT = "Nothing was kept: all {n} images were left out"
KEPT = "{left} left out, {kept} kept: {verdict}"
SENTENCES: Mapping[str, str] = _TEXTS["sentences"]
"""Advice on the kept images, by status; the sentence of their audit follows."""
NOTHING_TO_SHARE = "Every synthetic image was rejected, so there is nothing to share."
MORE_PEOPLE: str = _TEXTS["more_people"]
AUDITED: str = _TEXTS["audited"]
NO_PROMISE = "The threshold comes with no promise: {why}."
GUARANTEE: str = _TEXTS["guarantee"]
SHARED: str = _TEXTS["shared"]
FAMILY_COSTS: str = _TEXTS["family_costs"]
USER: str = _TEXTS["user"]
COST: str = _TEXTS["cost"]
REAL: str = _TEXTS["real"]
DIVERSITY: str = _TEXTS["diversity"]
EXPOSED: str = _TEXTS["exposed"]
EXPOSED_TABLE = "Training {units} at {whom} rejected images point, the closest pair first."
BY_PIXELS = "{n} by an image with the very pixels of a training image"
BY_SCORE = "{n} by an image that reaches the threshold for this {unit} and for no other"
SIMILAR = "Images that reach the threshold for several {units} are nearest to {n} more, who may only look alike."
WHOLE_SET = "A score alone shows no copy: an audit of the whole set tells who is copied (memorisk audit synthetic)."
NEW_PATIENTS: str = _TEXTS["new_patients"]
NEW_PATIENTS_UNKNOWN = "How many false alarms the threshold gives is not known"
SCORES: str = _TEXTS["scores"]
UNREAD: str = _TEXTS["unread"]

LEFT_OUT: Mapping[str, str] = _TEXTS["left_out"]
"""Reasons why an identity does not calibrate; "nearly_same" in runs of before 2026-11-23, where likeness excluded."""
LOOK_ALIKE: str = _TEXTS["look_alike"]


OWN_COPIES: str = _TEXTS["own_copies"]
NO_PROOF = "That an image was rejected does not show that it is a copy; that it was kept does not show that it is none."
ONLY_KEPT = "The rest of this folder names training images and people. Only the folder “kept” is meant to be shared."
NO_PATIENTS: str = _TEXTS["no_patients"]


def promised_kinds(promise: Promise) -> str:
    """Name the families of a guarantee, for a headline."""
    kinds = ["JPEG" if kind == "jpeg" else kind for kind in promise.kinds]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def unpromised_words(promise: Promise) -> str:
    """Name, in a sentence, the kinds of copies that the guarantee does not cover."""
    return f"The guarantee does not cover other kinds of copies ({', '.join(promise.not_promised)})."


def conclusion(status: str, numbers: FilterNumbers) -> tuple[Kind, str, str]:
    """Return the kind of box, the headline and the sentence that conclude a run.

    Args:
        status: Status of the verdict.
        numbers: Numbers behind the verdict.
    """
    sets, audit, (kind, verdict) = numbers.sets, numbers.audited, audited.HEADLINES[status]
    if not sets.filtered:
        return kind, NO_THRESHOLD, MORE_PEOPLE
    if not sets.n_kept_images:
        return kind, NOTHING_KEPT.format(n=count(sets.n_synthetic_images)), NOTHING_TO_SHARE
    rejected = plural(sets.n_rejected_images, "image", "images")
    headline = KEPT.format(left=rejected, kept=count(sets.n_kept_images), verdict=verdict[:1].lower() + verdict[1:])
    certain = status == "fail" and audit is not None and audit.certain
    sentence = audited.CERTAIN if certain else audited.SENTENCES[status]
    return kind, headline, SENTENCES[status] + numbers.terms.fill(sentence)


def exposed_words(numbers: FilterNumbers) -> str:
    """Say who is exposed by rejected images, with the false alarms on new people; empty where no patient is near."""
    terms, exposed, real = numbers.terms, numbers.exposed, numbers.real_rejected
    if not exposed.n_identical_patients and not exposed.n_by_score_patients:
        return ""
    beside = terms.fill(NEW_PATIENTS_UNKNOWN)
    if real is not None:
        share, low, high = (percent(value) for value in (real.estimate, real.low, real.high))
        beside = terms.fill(NEW_PATIENTS, share=share, low=low, high=high)
    ways = ((BY_PIXELS, exposed.n_identical_patients), (BY_SCORE, exposed.n_singled_patients))
    by = ", ".join(terms.fill(way, n=count(n)) for way, n in ways if n)
    whom = f"{terms.counted(exposed.n_exposed_patients)}: {by}" if by else "nobody for certain"
    sentences = [f"The rejected images {'expose' if exposed.n_identical_patients or not by else 'point at'} {whom}."]
    if n := exposed.n_pointed_patients:
        sentences.append(terms.fill(SIMILAR, n=count(n)))
    return " ".join([*sentences, WHOLE_SET, f"{beside}."])


def exposed_as(exposed: ExposedPatients) -> str:
    """Name the patients that rejected images point to: exposed only where pixels show it; scores prove nothing."""
    by_score_alone = exposed.n_singled_patients and not exposed.n_identical_patients
    return "singled out" if by_score_alone else "exposed"


def exposed_lines(numbers: FilterNumbers) -> list[tuple[str, str]]:
    """Say the same in lines for a terminal, each a name and a value."""
    units, exposed, real = numbers.units, numbers.exposed, numbers.real_rejected
    beside = "how many false alarms the threshold gives is not known"
    if real is not None:
        share, low, high = (100 * value for value in (real.estimate, real.low, real.high))
        beside = f"false alarms, of new {units}: {share:.0f} % ({low:.0f} to {high:.0f} %)"
    counts = (
        f"{exposed.n_identical_patients:,} by identical pixels, {exposed.n_singled_patients:,} singled out by a score"
    )
    return [
        (f"{exposed_as(exposed)} training {units}", f"{exposed.n_exposed_patients:,}: {counts}"),
        (
            f"training {units} only similar to rejected images, not exposed",
            f"{exposed.n_pointed_patients:,}; {beside}",
        ),
    ]


def excluded_words(exclusions: Exclusions, terms: Terms) -> list[str]:
    """Say who does not calibrate, by reason, who was counted once, and who looks alike, each in one clause.

    Args:
        exclusions: Counts of excluded identities.
        terms: Names of a group.
    """
    excluded, alike = exclusions.left_out, exclusions.look_alikes
    clauses = [
        f"{terms.counted(n)} left out, {terms.fill(why)}"
        for key, why in LEFT_OUT.items()
        if (n := getattr(excluded, key))
    ]
    if n := exclusions.n_merged_patients:
        clauses.append(f"{terms.counted(n)} taken for another one: they share an image, under several names")
    counts = (alike.of_others, "another one"), (alike.of_training, "a training image")
    if like := [f"{n:,} look like {whom}" for n, whom in counts if n]:
        clauses.append(LOOK_ALIKE.format(alike=" and ".join(like), given=alike.as_given, one=alike.as_one))
    return clauses


def limitations(numbers: FilterNumbers) -> list[Text]:
    """List what does not follow from a filter.

    Args:
        numbers: Numbers of the verdict.
    """
    texts: list[Text] = [
        OWN_COPIES,
        "The guarantee is of one copy of a new person. Of many copies made by "
        f"{promised_kinds(numbers.promise)}, some are kept: with a miss rate of "
        f"{100 * numbers.promise.miss_rate:.4g} % up to that share of them.",
        NO_PROOF,
        "Text burnt into the pixels was not looked at, and goes along as it is.",
        "What the generator itself gives away, if it is released, is another question; further images of it have to be "
        "filtered as well.",
        ONLY_KEPT,
    ]
    if not numbers.patients_known:
        texts.append(NO_PATIENTS)
    return [numbers.terms.fill(text) if isinstance(text, str) and "{" in text else text for text in texts]
