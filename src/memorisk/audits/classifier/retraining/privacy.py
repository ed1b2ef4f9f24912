"""Promise of a private training, and what label-noise canaries prove of it (METHODS section 1, "Defence").

The promise is the accountant's: (epsilon, delta) for one image added or removed, and what follows for one image
replaced and for all images of a patient. The lower bound is measured: a target of the same recipe is trained on one
member of each of n pairs of mislabelled images, and an auditor guesses which. A bound above the promise shows a broken
promise; one below it shows nothing more than what this number of pairs can.
"""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.classifier.result import PrivacyPromise
from memorisk.audits.classifier.twins.trainings import Recipe, make_jobs, train_all
from memorisk.audits.pseudonyms import draw_seed
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError
from memorisk.runs.files import put_back, read_array
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import CountProgress
from memorisk.scores.memorization import binary_cross_entropy, cross_entropy
from memorisk.statistics.privacy.measured_epsilon import EpsilonBound, epsilon_bound, pair_guesses
from memorisk.statistics.privacy.patient_epsilon import replace_one_epsilon
from memorisk.training.classifiers.jobs import TrainJob
from memorisk.training.classifiers.private import patient_epsilon, privacy_of
from memorisk.training.classifiers.twins import CanaryPairs, label_noise_pairs
from memorisk.training.engine.options import TrainOptions

_BOUND = 53  # keeps the shared images of the bound's target apart from other random streams


def privacy_summary(
    options: TrainOptions, groups: np.ndarray, *, known: bool, slots: int | None = None
) -> PrivacyPromise | None:
    """Return the promise of a private training in numbers; None where it makes none.

    Args:
        options: Settings of one training, epochs filled in.
        groups: Patient of each image the model is trained on, [n].
        known: Whether the data say whose each image is.
        slots: Places in an epoch, where these are more than images.
    """
    if not options.private:
        return None
    privacy = privacy_of(slots or len(groups), options)
    spent = (privacy.noise_multiplier, privacy.sampling_rate, privacy.steps, privacy.delta)
    return PrivacyPromise(
        **asdict(privacy),
        n_trained=len(groups),
        replace_one_epsilon=replace_one_epsilon(*spent),
        **patient_epsilon(privacy, groups, known=known),
    )


def plan_privacy(plan: Plan, options: TrainOptions, *, known: bool) -> PrivacyPromise | None:
    """Return the promise for the models of an audit: that of the fewest slots, each sampled most often."""
    models = [(d.slots or len(rows), rows) for d in plan.designs for rows in (d.rows_a, d.rows_b)]
    slots, rows = min(models, key=lambda model: model[0])
    return privacy_summary(options, plan.parts.groups[rows], known=known, slots=slots)


def check_bound(plan: Plan, options: ClassifierOptions) -> None:
    """Refuse pairs that cannot be made, before anything is trained.

    Raises:
        InputError: Too few images, or a head for several findings.
    """
    if options.canary_pairs:
        _pairs(plan, options)


def measure_bound(
    run: RunFolder,
    store: ImageStore,
    plan: Plan,
    recipe: Recipe,
    options: ClassifierOptions,
    progress: CountProgress,
) -> EpsilonBound | None:
    """Train one target on label-noise canaries and bound its replace-one epsilon from below.

    The score of a canary is its loss under the target with the wrong label, less its mean loss under the models of the
    audit: these were trained without wrong labels and without these coins. r is the number of pairs, fixed beforehand.

    Returns:
        The bound, or None where no pairs were requested.
    """
    if not options.canary_pairs:
        return None
    audited = make_jobs(run.path, store, plan, recipe, options)
    target, pairs = bound_job(run.path, store, plan, recipe, options)
    wrong = pairs.targets(_numbers(plan))
    train_all(run, [(target,)], options, progress)
    rows = np.concatenate([pairs.first, pairs.second])
    score = _loss(target, rows, wrong)
    score = score - np.mean([_loss(job, rows, wrong) for both in audited for job in both], axis=0)
    first, second = np.split(score, 2)
    promise = privacy_summary(recipe.train, plan.parts.groups[target.rows], known=False)
    return epsilon_bound(
        pair_guesses(first, second, pairs.coin, len(pairs.coin)),
        delta=promise.delta if promise else 0.0,
        claimed=promise.replace_one_epsilon if promise else None,
    )


def bound_job(
    out: Path, store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions
) -> tuple[TrainJob, CanaryPairs]:
    """Return the training on one of each pair of mislabelled images, and the pairs."""
    pairs, shared = _pairs(plan, options)
    target = replace(
        make_jobs(out, store, plan, recipe, options)[0][0],
        rows=pairs.training_rows(shared),
        slots=None,
        targets=pairs.targets(_numbers(plan)).astype(recipe.targets.values.dtype),
        seed=int(np.random.SeedSequence([options.split_seed, _BOUND, 1]).generate_state(1)[0]),
    )
    return target, pairs


def _pairs(plan: Plan, options: ClassifierOptions) -> tuple[CanaryPairs, np.ndarray]:
    """Return the canaries, and as many shared images as leave the target the size of the audit's models."""
    if options.head == "multi":
        raise InputError(
            "canary_pairs gives images one wrong label; a multi-label head has no such label: leave it out"
        )
    pool = np.concatenate([plan.parts.rows("canary"), plan.parts.rows("train")])
    groups = plan.parts.groups.astype(str)
    seed = draw_seed(options, options.split_seed)
    pairs = label_noise_pairs(_numbers(plan), groups, pool, options.canary_pairs, len(plan.parts.classes), seed)
    canary_groups = set(groups[np.concatenate([pairs.first, pairs.second])])
    free = np.array([row for row in np.sort(pool) if groups[row] not in canary_groups], dtype=np.intp)
    wanted = max(0, len(plan.designs[0].rows_a) - options.canary_pairs)
    rng = np.random.default_rng([_BOUND, seed])
    return pairs, rng.permutation(free)[:wanted]


def _numbers(plan: Plan) -> np.ndarray:
    number = {name: i for i, name in enumerate(plan.parts.classes)}
    return np.array([number[name] for name in plan.parts.labels], dtype=np.int64)


def _loss(job: TrainJob, rows: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return the cross-entropy of images under a trained model, with the given labels."""
    logits = np.asarray(put_back(read_array(job.logits_file, mmap=True), job.kept_order, 0)[rows], dtype=np.float64)
    if logits.shape[1] == 1:
        return binary_cross_entropy(logits[:, 0], label[rows].astype(np.float64))
    return cross_entropy(logits, label[rows])
