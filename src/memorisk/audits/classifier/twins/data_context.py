"""Facts of an audit of twins that come from its images: who is who, what was left out, what a reader must know."""

from typing import Any

from memorisk.audits.classifier.evidence import Context
from memorisk.audits.classifier.planning.plan import VALIDATION, Plan
from memorisk.audits.classifier.result import LookAlikes
from memorisk.audits.subgroups import subgroups
from memorisk.images.pixels import few_levels_note
from memorisk.images.store import ImageStore
from memorisk.runs.environment import versions
from memorisk.runs.errors import plural


def data_context(
    plan: Plan,
    store: ImageStore,
    linked: list[tuple[str, str]],
    alike: LookAlikes,
    *,
    by: tuple[str, ...],
    notes: list[str],
    **rest: Any,
) -> Context:
    """Return the context of an audit with the facts of its images; the caller adds how the models were made.

    Args:
        plan: Parts, designs and scored items.
        store: The images.
        linked: Pairs of groups that share an identical image.
        alike: Images of different patients that are nearly the same.
        by: Columns that divide the patients into subgroups.
        notes: Sentences for the report on the models.
        **rest: Fields of `Context` that do not come from the images.
    """
    manifest, parts = store.manifest, plan.parts
    of_images = [*manifest.notes, *few_levels_note(store.images, "images")]
    if manifest.id_doubts:
        of_images.append("memorisk images check names the patient ids that are in doubt.")
    if linked:
        of_images.append(shared_image_note(len(linked)))
    if not manifest.groups_given:
        of_images.append(
            "No patient ids were given, so every image counts as its own patient: patients with several images may be "
            "on both sides of the split, and every number is then too small. Name them with --group-from or "
            "--group-column."
        )
    return Context(
        design=plan.design,
        random_split=parts.random,
        not_auditable=parts.too_small,
        n_validation=int((parts.part == VALIDATION).sum()),
        n_images=manifest.n,
        n_skipped=len(store.skipped),
        n_missing=len(manifest.unread),
        n_not_sampled=manifest.n_not_sampled,
        data_hash=store.data_hash,
        versions=versions(),
        id_doubts=manifest.id_doubts,
        groups_given=manifest.groups_given,
        n_without_group=manifest.n_without_group if manifest.groups_given else 0,
        look_alikes=alike,
        notes=[*of_images, *notes],
        columns=subgroups(manifest.table, parts.groups, by),
        **rest,
    )


def shared_image_note(n: int) -> str:
    """Say how many pairs of groups share an image, and that each counts as one.

    Args:
        n: Number of pairs of groups that share an image.
    """
    pairs = plural(n, "pair of groups shares", "pairs of groups share")
    return f"{pairs} an identical image; {'it' if n == 1 else 'each pair'} counts as one group here."
