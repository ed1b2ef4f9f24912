"""The released generator itself (``--target``): attacks on it, their controls, and whether it is one more twin.

METHODS section 7, "Target".

The given split names the patients of its training; the twins, trained on halves of those, are the references: offline
LiRA and RMIA compare the generator's loss with that of twins that did not see the image. No twin saw a test image, so
that the online forms, which need twins that saw it, do not exist here. The other attacks see the generator alone, at
their published settings. A patient's score is the mean over the images; intervals are over patients, since the question
is what this file shows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from memorisk.audits.classifier.attack_numbers import (
    ALL,
    CONTROL,
    AttackRow,
    TargetAudit,
    TargetVerdict,
    twin_control_level,
)
from memorisk.audits.classifier.evidence import Evidence, Items
from memorisk.audits.classifier.planning.plan import Parts, Plan
from memorisk.audits.classifier.tables.utility import denoising_utility
from memorisk.audits.classifier.target.attacks import compare_with_twins, target_rows, target_scores, unseen_score
from memorisk.audits.generator.controls import blind_control, image_features, permuted_control
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.images.store import ImageStore
from memorisk.models.generators.denoiser import Denoiser, levels
from memorisk.models.generators.noise_attacks import NOISE_ATTACKS, NoiseAttack
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.models.generators.released import ReleasedGenerator, open_released
from memorisk.models.generators.unet import UNetFolder
from memorisk.models.released_weights import released_sha256
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError, one_line
from memorisk.scores.noise_errors import joined_losses
from memorisk.scores.twin_attacks import Access
from memorisk.training.engine.devices import limited_threads
from memorisk.training.generators.batches import ImageView, RowImages, view_images
from memorisk.training.generators.kinds.unet_training import captions_of
from memorisk.training.generators.kinds.user_training import OwnRecipe
from memorisk.training.generators.twins.networks import ScoredNetwork, guessed_losses, open_twin, twin_shares
from memorisk.training.generators.twins.recipes import TwinJob

LOSS, GUIDED = "loss", "guided_loss"
MEMBERS = ("canary", "train")
"""Parts whose images are members of the generator's training."""
MOST_TRIED = 64
"""Number of training images on which the generator is tried before any training."""
_AT_ONCE = 512
_COINS = 89  # stream of the twin that scores an image which neither saw


@dataclass(frozen=True, eq=False)
class Target:
    """Generator to be released, with the images as it sees them.

    Attributes:
        generator: The generator, on its device.
        images: Images of all items.
        ids: Ids of all items, [I].
        conditions: Class of each item as the generator counts them, [I] int64, or tokens of its caption, [I, T]; None
            for a generator without conditions.
        times: Times of its schedule at which the twins are scored, [L].
        pairs: Number of antithetic pairs of noise.
        guidance: Scale of guidance at which it is released; 1 for none.
        conditional_twins: Whether the twins are scored with the condition of each image.
    """

    generator: ReleasedGenerator
    images: RowImages
    ids: np.ndarray
    conditions: torch.Tensor | None
    times: np.ndarray
    pairs: int
    guidance: float = 1.0
    conditional_twins: bool = False

    def parts(self, rows: np.ndarray) -> Iterator[tuple[torch.Tensor, list[str], torch.Tensor | None]]:
        """Yield images, ids and conditions of some items, so many at a time."""
        places = torch.from_numpy(np.asarray(rows)).split(_AT_ONCE)
        for where, x in zip(places, self.images.batches(places), strict=True):
            yield x.cpu(), self.ids[where.numpy()].tolist(), None if self.conditions is None else self.conditions[where]

    def losses(self, rows: np.ndarray) -> np.ndarray:
        """Compute the loss of some items at each level, with the noise of the twins, [L, n].

        It is that of the unconditional network where the loss of the twins is; a network without a value for no class
        has twins of classes, and one of captions twins of captions.
        """
        denoiser, pairs = self.generator.denoiser, self.pairs
        losses: list[np.ndarray] = []
        for x, ids, conditions in self.parts(rows):
            of = conditions if self.conditional_twins else None
            losses.append(noise_losses(denoiser, x, ids, self.times, pairs, None, of))
        return np.concatenate(losses, axis=1)

    def guided_losses(self, rows: np.ndarray) -> np.ndarray | None:
        """Compute the loss of some items at each level by the guided prediction, [L, n]; None without guidance.

        Levels and noise are those of `losses`, so that the two differ in condition and guidance alone.
        """
        if self.guidance == 1:
            return None
        guided = replace(self.generator.denoiser, guidance=self.guidance)
        losses = [noise_losses(guided, x, ids, self.times, self.pairs, None, of) for x, ids, of in self.parts(rows)]
        return np.concatenate(losses, axis=1)

    def published(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Compute the scores of the published attacks on some items, by name, [n] each."""
        return _published(self.generator.denoiser, self.parts(rows), conditional=self.conditions is not None)


def published_attacks(denoiser: Denoiser, *, conditional: bool) -> list[NoiseAttack]:
    """Return the published attacks on a generator; the loss, which twins have as well, is not among them.

    Args:
        denoiser: The generator.
        conditional: Whether the images have conditions.
    """
    conditional = conditional and denoiser.null is not None
    return [a for a in NOISE_ATTACKS.values() if a.name != LOSS and (conditional or not a.needs_condition)]


def published_passes(options: GeneratorAuditOptions) -> int:
    """Count the passes for each image of the published attacks on the target, and on the twins as their controls.

    Args:
        options: Settings of the audit.

    Raises:
        InputError: The target cannot be read.
    """
    if options.target is None:
        return 0
    generator = open_generator(options)
    conditional = bool(generator.classes or generator.captions)
    n = sum(attack.passes for attack in published_attacks(generator.denoiser, conditional=conditional))
    return n * (1 if options.discard_weights or options.train is not None else 2)


def _published(
    denoiser: Denoiser, parts: Iterable[tuple[torch.Tensor, list[str], torch.Tensor | None]], *, conditional: bool
) -> dict[str, np.ndarray]:
    """Compute the scores of the published attacks on a generator, by name, [n] each.

    Args:
        denoiser: The generator.
        parts: Images, ids and conditions, so many at a time.
        conditional: Whether the images have conditions.
    """
    attacks = published_attacks(denoiser, conditional=conditional)
    scores: dict[str, list[np.ndarray]] = {attack.name: [] for attack in attacks}
    for x, ids, conditions in parts:
        for attack in attacks:
            scores[attack.name].append(attack.function(denoiser, x, ids, conditions))
    return {name: np.concatenate(of_parts) for name, of_parts in scores.items()}


def twin_scores(
    twins: tuple[ScoredNetwork, ScoredNetwork], plan: Plan, saw_a: np.ndarray, saw_b: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute the published attacks on the twins of one pair, by name, [I]: their controls.

    Each image is scored by the twin that did not see it, one that neither saw by either with equal probability. NaN is
    the score of an image that both saw.

    Args:
        twins: Twins A and B.
        plan: Scored items.
        saw_a: Whether twin A saw each item, [I].
        saw_b: Whether twin B saw each item, [I].
    """
    coin = np.random.default_rng(_COINS).random(len(saw_a)) < 0.5
    scored_by_a = ~saw_a & (saw_b | coin)
    scores: dict[str, np.ndarray] = {}
    for twin, own in zip(twins, (scored_by_a, ~saw_b & ~scored_by_a), strict=True):
        items = np.flatnonzero(own)
        places = torch.from_numpy(plan.item_row[items]).split(_AT_ONCE)
        ids = iter(np.split(plan.items.image[items], np.cumsum([len(part) for part in places])[:-1]))
        parts = (
            (x.cpu(), next(ids).tolist(), None if twin.conditions is None else twin.conditions[where])
            for where, x in zip(places, twin.images.batches(places), strict=True)
        )
        for name, values in _published(twin.denoiser, parts, conditional=twin.conditions is not None).items():
            scores.setdefault(name, np.full(len(own), np.nan))[items] = values
    return scores


def open_generator(options: GeneratorAuditOptions) -> ReleasedGenerator:
    """Open the generator that is to be released, before its images are known.

    Args:
        options: Settings of the audit.

    Raises:
        InputError: It cannot be read, or cannot be guided as the settings say.
    """
    assert options.target is not None
    generator = open_released(options.target, options.kind, options.lora)
    if options.guidance != 1:
        generator.check_guidance(options.guidance, f"--target {one_line(options.target.name, 60)}")
    return generator


def open_target(store: ImageStore, plan: Plan, job: TwinJob, options: GeneratorAuditOptions) -> Target:
    """Open the generator that is to be released.

    Args:
        store: The images.
        plan: Parts and scored items.
        job: A job of the audit.
        options: Settings of the audit.

    Raises:
        InputError: It cannot be read, or does not fit the images or the twins.
    """
    assert options.target is not None
    name, generator = one_line(options.target.name, 60), open_generator(options)
    refuse_other_network(generator, plan.items.label, job.unet, options)
    device = torch.device(job.device)
    in_pixels = ImageView(store, None, None)
    view = (
        in_pixels if generator.latent == "pixels" else view_images(store, generator.latent, flip=False, device=device)
    )
    refuse_other_split(generator, store, plan.parts, name)
    if view.encoder is not None and view.encoder.identity != job.encoder:
        raise InputError(
            f"--target {name} draws latents of another autoencoder than the twins, whose losses do not compare: give "
            f"--latent {generator.latent}"
        )
    if generator.shape not in (view.shape, (int(np.prod(view.shape)),)):
        drawn, own = (" x ".join(map(str, shape)) for shape in (generator.shape, view.shape))
        raise InputError(
            f"--target {name} draws {drawn} values, and these images have {own}: give --size and --channels of its "
            "training"
        )
    conditions = None
    if generator.classes:
        number = {one: place for place, one in enumerate(generator.classes)}
        conditions = torch.tensor([number[label] for label in plan.items.label], dtype=torch.int64)
    if generator.captions is not None:
        assert job.caption_column is not None
        captions = np.array(captions_of(store.manifest, job.caption_column), dtype=object)[plan.item_row]
        conditions = generator.captions.tokens(captions.tolist())
    conditional_twins = generator.denoiser.null is None or generator.captions is not None
    for network in (generator.network, generator.denoiser.network):
        if isinstance(network, torch.nn.Module):
            network.to(device)
    if isinstance(job.recipe, OwnRecipe) and not job.done:  # the twins' levels are known after the first training
        times = levels(generator.denoiser, job.recipe.levels)
    else:
        times = np.array([generator.denoiser.nearest_time(share) for share in twin_shares(job).tolist()])
    images = view.shown(plan.item_row, device)
    return Target(
        generator, images, plan.items.image, conditions, times, job.recipe.draws, options.guidance, conditional_twins
    )


def refuse_other_network(
    generator: ReleasedGenerator, labels: np.ndarray, unet: UNetFolder | None, options: GeneratorAuditOptions
) -> None:
    """Refuse a generator that draws in another space than the twins, or by other classes than theirs or the images'.

    Args:
        generator: The generator.
        labels: Class of each scored image, [I].
        unet: Configuration of the twins' folder of a U-Net; None for other twins.
        options: Settings of the audit.

    Raises:
        InputError: Losses of the generator and of the twins do not compare, or an image has a class of its own.
    """
    name = one_line((options.target or Path()).name, 60)
    if (generator.latent == "pixels") != ((options.latent if unet is None else unet.latent) == "pixels"):
        space = "pixels" if generator.latent == "pixels" else "latents of its own autoencoder"
        way = "name the same space by --latent" if options.kind == "dit" else "train twins of its own folder"
        raise InputError(f"--target {name} draws {space}, and the twins do not: {way}")
    classes = () if unet is None else unet.classes
    if generator.denoiser.null is None and generator.classes != classes:
        which = (
            "needs the class of each image, and the twins have no such classes"
            if generator.classes
            else "has no classes, and the twins need the class of each image"
        )
        raise InputError(f"--target {name} {which}, so that losses do not compare: train twins of its own folder")
    unknown = next((label for label in labels if label not in generator.classes), None)
    if generator.classes and unknown is not None:
        raise InputError(f"--target {name} has no class {one_line(unknown, 60)!r}, which the images have")


def refuse_other_split(generator: ReleasedGenerator, store: ImageStore, parts: Parts, name: str) -> None:
    """Refuse a generator whose record of its training contradicts the split of the audit.

    Args:
        generator: The generator; without a record the split is taken on trust.
        store: The images.
        parts: Parts of the audit.
        name: Name of the generator in messages.

    Raises:
        InputError: It was trained on test images, or not on all members.
    """
    own_parts = None if generator.own is None else generator.own.seen_parts(store)
    if own_parts is None or not own_parts.pixels_compared:
        return
    trained, test = own_parts.part == "training", parts.part == "test"
    n_test, n_missing = int(trained[test].sum()), int((~trained & np.isin(parts.part, MEMBERS)).sum())
    if not n_test and not n_missing:
        return
    wrong = [f"{n_test:,} of the {int(test.sum()):,} test images were in its training"] if n_test else []
    wrong += [f"{n_missing:,} of the images of train were not"] if n_missing else []
    raise InputError(
        f"--target {name} was trained on another split than the one given: {' and '.join(wrong)}. Give the split of "
        "its training (manifest.parquet of the run of train generator), or train it with --splits given"
    )


def check_target(store: ImageStore, plan: Plan, job: TwinJob, options: GeneratorAuditOptions) -> None:
    """Open the generator and try it on some images of its training, before any twin is trained.

    Args:
        store: The images.
        plan: Parts and scored items.
        job: A job of the audit.
        options: Settings of the audit.

    Raises:
        InputError: It cannot be read, does not fit, or gives numbers that are not finite.
    """
    target = replace(open_target(store, plan, job, options), pairs=1)
    rows = np.flatnonzero(plan.items.split != "test")[:MOST_TRIED]
    with limited_threads(job.threads):
        _refuse_not_finite(_every_score(target, rows), options)


def audit_target(
    store: ImageStore,
    plan: Plan,
    pair: tuple[TwinJob, TwinJob],
    evidence: Evidence,
    weights: np.ndarray,
    options: GeneratorAuditOptions,
) -> TargetAudit:
    """Attack the generator, measure the controls and compare it with the twins.

    Args:
        store: The images.
        plan: Parts and scored items.
        pair: Jobs of the twins of the first seed, which are attacked as the generator is where they can be opened.
        evidence: Score table of the twins.
        weights: Weights of the levels, [L].
        options: Settings of the audit.

    Raises:
        InputError: The file is not the one that was tried.
    """
    assert options.target is not None
    job, twins = pair[0], tuple(map(open_twin, pair))
    target = open_target(store, plan, job, options)
    rows = np.arange(len(plan.items))
    test = plan.items.split == "test"
    unseen: dict[str, np.ndarray] = {}
    with limited_threads(job.threads):
        measured = _every_score(target, rows)
        if twins[0] is not None and twins[1] is not None:
            unseen = twin_scores((twins[0], twins[1]), plan, evidence.member_a[0], evidence.member_b[0])
    _refuse_not_finite(measured, options)
    unseen = {name: scores for name, scores in unseen.items() if name in measured}
    level = twin_control_level(len(unseen))
    loss = joined_losses(measured.pop(LOSS), weights)
    own = {"loss": loss, "margin": -loss}
    if GUIDED in measured:
        measured[GUIDED] = -joined_losses(measured[GUIDED], weights)
    scores = target_scores(own, evidence, ~test, test) | measured | {CONTROL: unseen_score(evidence, test)}
    every, classes = _rows(scores, evidence.items, options.attack_gate, level)
    (control,) = (row.numbers for row in every if row.attack == CONTROL)
    attacks = {row.attack: row for row in every if row.attack != CONTROL}
    own_controls = {
        name: row.numbers
        for name, score in unseen.items()
        for row in _rows({CONTROL: score}, evidence.items, options.attack_gate, level)[0]
    }
    patients, place = patient_items(plan.items, by_class=False)
    features = image_features(store.images)[plan.item_row]
    trivial = joined_losses(guessed_losses(job, plan.item_row[~test]), weights)
    utility = denoising_utility(loss[None, ~test], trivial, plan.items.group[~test])
    replication = compare_with_twins(own, evidence, ~test, test)
    released = options.lora or options.target
    return TargetAudit(
        file=released.name,
        sha256=file_sha256(released) if released.is_file() else None,
        base=None if options.lora is None else options.target.name,
        base_sha256=target.generator.base_sha256,
        tensors_sha256=released_sha256(target.generator.network),
        n_members=int((~test).sum()),
        n_non_members=int(test.sum()),
        loss_members=float(loss[~test].mean()),
        loss_test=float(loss[test].mean()),
        explained=utility.explained,
        beats_guessing=utility.beats_guessing,
        guidance=None if options.guidance == 1 else options.guidance,
        attacks={name: row.numbers for name, row in attacks.items()},
        access={name: row.access for name, row in attacks.items()},
        control=control,
        own_controls=own_controls,
        blind=blind_control(features, ~test, plan.items.label, plan.items.group),
        permuted=permuted_control(_means(-loss, place), patients.split != "test", patients.label, patients.group),
        classes=tuple(classes),
        replication=replication,
        verdict=TargetVerdict(
            replicated=replication.replicated,
            aucs={name: row.numbers.auc.estimate for name, row in attacks.items()},
        ),
    )


def patient_items(items: Items, *, by_class: bool) -> tuple[Items, np.ndarray]:
    """Return the patients as items, and the patient of each image, [I].

    Args:
        items: Scored images.
        by_class: Whether a patient with images of several classes is an item of each; otherwise the first is the class.
    """
    keys = {"group": items.group.astype(str)} | ({"label": items.label.astype(str)} if by_class else {})
    place = pd.DataFrame(keys).groupby(list(keys), sort=False).ngroup().to_numpy()
    first = np.unique(place, return_index=True)[1]
    return Items(items.group[first], items.label[first], items.group[first], items.split[first]), place


def _rows(
    scores: Mapping[str, np.ndarray], items: Items, gate: float, level: float
) -> tuple[list[AttackRow], list[AttackRow]]:
    """Measure every score over all patients, and the attacks class by class where there are several classes."""
    names = sorted(set(items.label.tolist()))
    tables: list[list[AttackRow]] = []
    for parts in ([ALL], names if len(names) > 1 else []):
        patients, place = patient_items(items, by_class=parts != [ALL])
        means = {name: _means(score, place) for name, score in scores.items()}
        test = patients.split == "test"
        how = {"access": Access.WEIGHTS, "control_level": level}
        tables.append(target_rows(means, patients, ~test, test, gate, parts, **how))
    return tables[0], [row for row in tables[1] if row.attack != CONTROL]


def _means(score: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Average the scores of each patient's images, [G]; NaN where no image has one."""
    there = np.isfinite(score)
    n = np.bincount(place, there)
    total = np.bincount(place, np.where(there, score, 0.0))
    return np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)


def _every_score(target: Target, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Compute what is measured of some items by name: losses [L, n], scores of the published attacks [n]."""
    guided = target.guided_losses(rows)
    return {LOSS: target.losses(rows), **target.published(rows), **({} if guided is None else {GUIDED: guided})}


def _refuse_not_finite(scores: Mapping[str, np.ndarray], options: GeneratorAuditOptions) -> None:
    """Refuse a generator that gives no number.

    Raises:
        InputError: A score is NaN or infinite.
    """
    bad = next((name for name, values in scores.items() if not np.isfinite(values).all()), None)
    if bad is not None:
        name = one_line((options.target or Path()).name, 60)
        raise InputError(
            f"--target {name}: scores of {bad} are not finite numbers: the weights are of a training that diverged"
        )
