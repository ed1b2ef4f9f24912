"""Does a set of synthetic images copy anybody? ``memorisk audit synthetic``, and its dry run.

METHODS section 5: the nearest synthetic image of each real image is searched, and training patients are ranked among
patients that the generator never saw. Known copies, planted in the set, show what would have been found.

Features are kept by content, plants come from the seed, and the second look leaves its alignments in the run folder
until it is done, so that the same command resumes where a killed one stopped. Features of the training images are an
atlas that the audit of another set finds again. The dry run (``--dry-run``) counts the comparisons of the audit and
names the limits of its result before any feature is computed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from memorisk.audits.compared_images import COMPARED, ComparedImages
from memorisk.audits.comparison.colours import compared_planes
from memorisk.audits.comparison.distances import CANDIDATES, find_pixel_copies, measure_distances
from memorisk.audits.comparison.evidence import DetectorView, Pairing, SyntheticEvidence, logit_histogram, read_pairing
from memorisk.audits.comparison.features import (
    can_plant,
    display_names,
    feature_identity,
    fit_similarity,
    measure_features,
    named_detectors,
    open_detectors,
)
from memorisk.audits.comparison.kept_alignments import ALIGNMENTS, kept_alignments
from memorisk.audits.comparison.knowledge import detector_notes
from memorisk.audits.comparison.other_forms import compared_forms
from memorisk.audits.comparison.plants import Plants, draw_plants, insert_plants, missed_kinds, no_plants
from memorisk.audits.comparison.review import NO_REVIEW, Review, read_review
from memorisk.audits.comparison.review_files import write_elsewhere, write_review
from memorisk.audits.comparison.sets import (
    Sets,
    Source,
    decode_sets,
    manifest_of,
    n_unread,
    read_manifests,
    source_name,
)
from memorisk.audits.comparison.terms import TrainingUnread
from memorisk.audits.pseudonyms import Pseudonyms, draw_seed
from memorisk.audits.run_images import HELD_OUT, SYNTHETIC, TRAIN, parts_of, write_manifests
from memorisk.audits.runner import REPORT, run_audit
from memorisk.audits.set_audit import SetAudit
from memorisk.audits.subgroups import LEAST_PATIENTS
from memorisk.audits.synthetic.analysis import analyse_synthetic
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.audits.synthetic.page import synthetic_page
from memorisk.audits.synthetic.reasons import FramesLeft, NoHeldOut, NoPatientIds, TrainingTransparent
from memorisk.audits.synthetic.result import SubgroupOutlook
from memorisk.audits.synthetic.sections.pictures import Pictures, pair_pictures
from memorisk.audits.synthetic.subgroups import subgroup_outlook, training_subgroups
from memorisk.images.alterations.plants import ALL_KINDS, PLANT_KINDS
from memorisk.images.copies.near_copies import RULE_IMAGES
from memorisk.images.options import ImageOptions
from memorisk.images.pixel_form import PixelForm
from memorisk.images.pixels import PixelRule, one_channel
from memorisk.images.store import ImageStore, manifest_sources
from memorisk.report.blocks import Table, number, words
from memorisk.report.numbers import to_row
from memorisk.report.page import render_page
from memorisk.report.quantities import Quantity
from memorisk.report.result import Result
from memorisk.runs.environment import check_device
from memorisk.runs.errors import listed, plural
from memorisk.runs.files import fingerprint, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.scores.similarity import HeadSimilarity
from memorisk.statistics.copies.planted_copies import fewest_plants, plant_power
from memorisk.statistics.copies.singled_out import MIN_HELD_OUT
from memorisk.statistics.exchangeability.image_numbers import image_counts
from memorisk.statistics.memorization.nulls import unit_p_values
from memorisk.statistics.multiple_testing.lists import smallest_list_of
from memorisk.statistics.verdicts.levels import POWER, share_words
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.features.compute_backend import ComputeBackend
from memorisk.training.features.extraction import features_cost


@dataclass(frozen=True)
class SyntheticPlan:
    """Work that a command would do, and the verdicts that are possible.

    Attributes:
        images: Number of images in each set.
        compared: Form of the pixels that are compared: a pass is about these alone.
        first_file: Form of the first generated image as its file holds it; None for images in no file.
        patients: Numbers of training and of held-out patients; images where no patients are given.
        left_out: Number of held-out patients left out since an image of theirs is a training image.
        features: Names of the detectors that compare images.
        plants: Number of copies of required kinds that would be hidden.
        plant_patients: Number of patients that they are of: the independent units of the power.
        further_plants: Number of copies of kinds that are tried and not required.
        shortest_list: Fewest patients that could be listed; None without held-out images or where none could.
        held_out_wanted: Number of held-out patients below which none, or hardly any, can be singled out.
        cost: Passes, pairs of images (all searches of every detector, and thumbnails) and bytes, without the comparison
            of planted copies with their sources one by one.
        lacking: Requirements of a pass that are unmet whatever is measured.
        notes: Assumptions and omissions, one sentence for each.
        subgroups: Share of copied patients that would be noticed of each level of the columns of ``by``.
    """

    images: Annotated[dict[str, int], Quantity("images", opening=1)]
    compared: PixelForm
    first_file: PixelForm | None
    patients: Annotated[dict[str, int], Quantity("patients")]
    left_out: Annotated[int, Quantity("held-out patients left out, with a training image")]
    features: Annotated[str, Quantity("features")]
    plants: Annotated[int, Quantity("planted copies")]
    plant_patients: Annotated[int, Quantity("patients that these are of")]
    further_plants: Annotated[int, Quantity("copies of other kinds, also tried, not required")]
    shortest_list: Annotated[int | None, Quantity("shortest list of patients", missing="none possible")]
    held_out_wanted: Annotated[int, Quantity("held-out patients wanted, at least")]
    cost: Annotated[Cost, Quantity("work", opening=2)]
    lacking: Annotated[tuple[str, ...], Quantity("no pass", opening=4)]
    notes: Annotated[tuple[str, ...], Quantity("note")]
    subgroups: tuple[SubgroupOutlook, ...] = ()

    @property
    def tables(self) -> list[Table]:
        """Table of the subgroups; none without columns."""
        if not self.subgroups:
            return []
        columns = [
            words("subgroup", "Subgroup", row=True),
            number("n_patients", "Training patients", "count", missing=f"fewer than {LEAST_PATIENTS}"),
            number("noticeable", "Noticeable share", "percent", missing="not compared"),
        ]
        caption = (
            f"Subgroups: share of copied patients that would be noticed in {share_words(POWER)} if none of the others "
            "were copied."
        )
        frame = pd.DataFrame([to_row(row) for row in self.subgroups])
        return [Table(frame=frame, columns=columns, caption=caption, visible_rows=60)]

    @property
    def pixels(self) -> Annotated[str, Quantity("compared")]:
        """Pixels that a pass is about, and what of the files it is not."""
        text = f"{self.compared.words}; a pass is about these, and memorisk release writes no others"
        if self.compared.is_volume:
            return f"{self.compared.words}; a pass is about these, and memorisk release writes no volumes"
        if self.first_file is None or self.compared.covers(self.first_file):
            return text
        return f"{text}. The first generated file holds {self.first_file.words}: give settings that keep what goes out"

    @property
    def could_pass(self) -> Annotated[str, Quantity("could pass", opening=3)]:
        """Say whether the audit could pass at all."""
        return "no" if self.lacking else "yes, if nothing is found and enough planted copies are noticed"


def describe_sets(sets: Sets, options: SyntheticOptions, review: Review = NO_REVIEW) -> SyntheticPlan:
    """Count images and patients, and find the list that they allow.

    Args:
        sets: Sets of decoded images.
        options: Settings with the levels, plants and detectors.
        review: Judgements of pairs by a person.
    """
    train = np.unique(sets.train.manifest.groups.astype(str), return_counts=True)[1]
    held = np.empty(0, np.int64)
    if sets.held is not None:
        held = np.unique(sets.held.manifest.groups.astype(str), return_counts=True)[1]
    n, s, m = len(sets.train.images), len(sets.synthetic.images), int(held.sum())
    further = {} if sets.others is None else {"further parts": len(sets.others.images)}
    plants = _draw(sets, options)
    sources = sets.train.manifest.groups[plants.source[plants.required]].astype(str)
    detectors, level = open_detectors(options, sets), options.shared_level
    shortest = possible_list(train, held, level) if m else None
    return SyntheticPlan(
        images={"training": n, "synthetic": s, "held out": m} | further,
        compared=PixelForm.of_array(sets.synthetic.images[0]),
        first_file=_first_file(sets.synthetic, options.of_synthetic()),
        patients={"training": len(train), "held out": len(held)},
        left_out=sets.shared_patients,
        features="; ".join(display_names(detectors)),
        plants=plants.n_required,
        plant_patients=len(np.unique(sources)),
        further_plants=plants.n - plants.n_required,
        shortest_list=shortest if shortest is not None and shortest <= len(train) else None,
        held_out_wanted=MIN_HELD_OUT,
        cost=_cost(sets, detectors, plants, draw_seed(options, options.seed), review),
        lacking=tuple(_lacking(sets, plants, options)),
        notes=(*sets.notes, *_counted(sets)),
        subgroups=subgroup_outlook(sets.train.manifest, training_subgroups(sets.train.manifest, options.by)),
    )


def _draw(sets: Sets, options: SyntheticOptions) -> Plants:
    """Draw the plants that the options ask for; none where features of new images cannot be computed."""
    if not can_plant(options):
        return no_plants(sets.train)
    seed = draw_seed(options, options.seed)
    return draw_plants(sets.train, sets.synthetic, options.plants, seed, options.kinds, options.further_plants)


def _first_file(store: ImageStore, options: ImageOptions) -> PixelForm | None:
    """Return the form of a set's first image before it was brought to size and channels."""
    if store.manifest.root is None:
        return None
    first = manifest_sources(store.manifest.subset(np.arange(1)))[0]
    return PixelForm.of_array(one_channel(PixelRule.of(options).read(first)))


def _lacking(sets: Sets, plants: Plants, options: SyntheticOptions) -> Iterator[str]:
    """List the requirements of a pass that these sets and settings lack, as `synthetic_verdict` words them."""
    if sets.held is None:
        yield NoHeldOut().text
    if not sets.knowledge(one_image_per_patient=options.one_image_per_patient)["patients_known"]:
        yield NoPatientIds(n_without=sets.n_without_group).text
    yield from (doubt.why for doubt in sets.id_doubts)
    if n := n_unread(sets.train):
        yield TrainingUnread(n_files=n).text
    if n := sets.train_hiding:
        yield TrainingTransparent(n_images=n).text
    if any(sets.frames_left):
        yield FramesLeft(n_synthetic=sets.frames_left[1], n_training=sets.frames_left[0], of=sets.left_of).text
    sources, kinds = sets.train.manifest.groups[plants.source].astype(str), plants.kind.tolist()
    noticed = plant_power(np.ones(plants.n, dtype=bool), sources, kinds=kinds, seed=options.seed).kinds
    if unmade := [kind for kind in options.kinds if kind not in noticed]:
        yield f"no copy is planted of the {plural(len(unmade), 'kind', 'kinds')}: {listed(unmade, len(ALL_KINDS))}"
    if few := missed_kinds(noticed, options.kinds, options.recall):
        of = f"{listed(few, len(ALL_KINDS))} (--plants {options.plants})"
        below = f"the lower limit of what would be noticed stays below {100 * options.recall:g} %"
        number, patients = fewest_plants(options.recall), len(np.unique(sets.train.manifest.groups.astype(str)))
        way = f"--plants {number} can reach it" if number <= patients else f"not with {patients:,} training patients"
        yield f"too few copies are planted of {of}: also where all are noticed, {below}; {way}"


def possible_list(n_images: np.ndarray, held_images: np.ndarray, level: float) -> int:
    """Return the shortest list that the numbers of images allow, whatever is measured.

    Args:
        n_images: Number of images of each training patient, [U].
        held_images: Number of images of each held-out patient, [n].
        level: Level of the list.
    """
    sizes, back = np.unique(n_images, return_inverse=True)
    unit, other = np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.arange(len(held_images)), held_images)
    smallest = unit_p_values(np.zeros(len(unit)), unit, np.zeros(len(other)), other).floor[back]
    return smallest_list_of(smallest, level)


def _cost(sets: Sets, detectors: Sequence[PairDetector], plants: Plants, seed: int, review: Review) -> Cost:
    """Count passes, pairs and bytes of everything that an audit computes."""
    stores = [store for store in (sets.train, sets.held) if store is not None]
    hashes = [store.pixel_hashes for store in stores]
    hidden, shape = insert_plants(sets.synthetic, plants, seed).store.pixel_hashes, sets.train.images.shape
    features = total([
        features_cost(source, of, shape, d.detector)
        for d in detectors
        for source, of in ((d.source, hashes), (replace(d.source, as_copies=True), [hidden]))
    ])  # fmt: skip
    again = sum(len(rest) for _, rest in review.left_of(sets))
    again += 2 * sum(len(rest) for _, rest in review.left_for(sets))
    searches = [
        _searched_pairs(sets, plants.n, by_parts=d.source.by_parts, compares_real=compares) + again
        for d, compares in zip(detectors, _compare_real(detectors), strict=True)
    ]
    n_real, s = sum(len(store.images) for store in stores), len(sets.synthetic.images)
    alike = len(set(sets.synthetic.pixel_hashes.tolist()))
    rule_images = min(RULE_IMAGES, len(set(np.concatenate(hashes).tolist())))
    thumbnails = n_real * s + (alike * (alike - 1) + rule_images * (rule_images - 1)) // 2
    planes, at_most = compared_planes(sets)
    planes += compared_forms(sets.forms, s, plants.n)
    return features + Cost(
        pairs=sum(searches) + thumbnails + planes,
        bytes_images=sum(
            store.images.nbytes
            for store in (*stores, sets.synthetic, sets.others, *(one for form in sets.forms.values() for one in form))
            if store is not None
        ),
        at_most=("pairs",) if at_most or any(map(_may_search_again, stores)) else (),
    )


def _searched_pairs(sets: Sets, n_plants: int, *, by_parts: bool, compares_real: bool) -> int:
    """Count the pairs of images that one detector compares (`measure_distances`)."""
    n, s = len(sets.train.images), len(sets.synthetic.images)
    m = 0 if sets.held is None else len(sets.held.images)
    ways = 1 if by_parts else 2  # parts answer for copies and sources in one pass
    pairs = ways * s * (n + m) + m * n + n_plants * (2 * n + m)
    pairs += s * sum(len(store.images) for store in (sets.train, sets.held) if store and _may_search_again(store))
    if compares_real:
        pairs += n * n
        if sets.held is not None:
            chosen = image_counts(sets.train.manifest.groups.astype(str), sets.held.manifest.groups.astype(str))
            pairs += (len(chosen.train) + len(chosen.held)) ** 2
    return pairs


def _may_search_again(store: ImageStore) -> bool:
    """Return whether the candidates of an image may all be of one patient, so that the next patient is searched."""
    return int(np.unique(store.manifest.groups.astype(str), return_counts=True)[1].max()) >= CANDIDATES


def _compare_real(detectors: Sequence[PairDetector]) -> list[bool]:
    """Say which detectors compare real images with real ones: those of whole images, where there is one."""
    by_parts = [detector.source.by_parts for detector in detectors]
    return [all(by_parts) or not one for one in by_parts]


def _counted(sets: Sets) -> list[str]:
    """Note that patients would count by one image each, where they would."""
    if sets.held is None:
        return []
    note = image_counts(sets.train.manifest.groups.astype(str), sets.held.manifest.groups.astype(str)).words
    return [note] if note else []


@takes_settings(SyntheticOptions)
def audit_synthetic(
    train: Source,
    synthetic: Source,
    *,
    out: str | Path,
    held_out: Source | None = None,
    progress: Progress = no_progress,
    dry_run: bool = False,
    **settings: Any,
) -> Result | SyntheticPlan:
    """Audit whether synthetic images copy the patients that their generator was trained on.

    Args:
        train: The images that the generator was trained on: folder, table, DICOM tree, file of
            arrays, a manifest or a store; or a DataFrame, arrays or a data set of torch or of Hugging Face.
        synthetic: The images that the generator made, all that are to be released.
        out: The run folder: new, empty, or one of the same audit to write again.
        held_out: Images of patients that it never saw, a random part of the same data; None for distances only.
        progress: Called with (stage, done, total).
        dry_run: Whether only to decode and count the images and to return the plan, without features or distances.
        **settings: Any field of `SyntheticOptions`.

    Returns:
        The result, which is also saved in ``out``; or the plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MemoriskError: The disk is full; features that are done are kept.

    Example:
        >>> result = audit_synthetic("train/", "synthetic/", held_out="test/", out="runs/s")  # doctest: +SKIP
        >>> result.per_group.query("listed")  # doctest: +SKIP
    """
    options = synthetic_options(settings | ({} if held_out is None else {"held_out": source_name(held_out)}))
    return audit_parts(train, synthetic, held_out, None, out=Path(out), options=options, progress=progress,
                       dry_run=dry_run)  # fmt: skip


def audit_parts(
    train: Source,
    synthetic: Source,
    held_out: Source | None,
    others: Source | None,
    *,
    out: Path,
    options: SyntheticOptions,
    progress: Progress,
    dry_run: bool = False,
) -> Result | SyntheticPlan:
    """Audit a synthetic set as `audit_synthetic` does, also where another run has already split the real images.

    Args:
        train: The images that the generator was trained on.
        synthetic: The images that the generator made.
        held_out: Images of patients that it never saw; None for none.
        others: Images of further parts of the same data, whose pixels alone are compared; None for none, or where the
            options name the splits of ``train``.
        out: The run folder.
        options: Settings of the audit.
        progress: Called with (stage, done, total).
        dry_run: Whether only to return the plan.

    Raises:
        InputError: As `audit_synthetic`.
    """
    sources = {
        "TRAIN": train,
        "SYNTHETIC": synthetic,
        "the held-out images": held_out,
        "the images of further parts": others,
    }
    inputs = {"train": source_name(train), "synthetic": source_name(synthetic)}
    return run_audit(SyntheticAudit(out, options, inputs, sources, dry_run), progress)


@dataclass(frozen=True, eq=False)
class _SyntheticInputs:
    """Images, the detectors that compare them, and a person's judgements of them."""

    sets: Sets
    detectors: tuple[PairDetector, ...]
    pairing: Pairing | None
    review: Review


class SyntheticAudit(SetAudit[_SyntheticInputs, SyntheticEvidence, Result]):
    """Audit of a set of generated images."""

    kind = "synthetic"
    options: SyntheticOptions

    def read(self, names: Pseudonyms, progress: Progress) -> _SyntheticInputs:
        """Decode the images, open the detectors, and read the pairing and the review."""
        options, (train, synthetic, held_out, others) = self.options, self.sources.values()
        named_detectors(options)
        opened = read_manifests(train, synthetic, held_out, options, progress, others=others, compares_others=True)
        training_subgroups(manifest_of(opened.train), options.by)
        sets = decode_sets(opened, progress)
        training_subgroups(sets.train.manifest, options.by)  # some of the images may not be readable
        detectors = tuple(open_detectors(options, sets))
        for detector in detectors:
            detector_notes(detector, sets)
        pairing = read_pairing(options.paired, sets, draw_seed(options, options.seed))
        return _SyntheticInputs(sets, detectors, pairing, read_review(options.review, sets, names))

    def plan(self, inputs: _SyntheticInputs, place: ComputeBackend, progress: Progress) -> SyntheticPlan:
        """Count the images and the work, and foresee the verdict."""
        return describe_sets(inputs.sets, self.options, inputs.review)

    def open_with(self, inputs: _SyntheticInputs, place: ComputeBackend, progress: Progress) -> SyntheticPlan:
        """Return the whole plan, since it computes no features."""
        return self.plan(inputs, place, progress)

    def collect(self, inputs: _SyntheticInputs, place: ComputeBackend, progress: Progress) -> SyntheticEvidence:
        """Hide the plants, compute features and all distances."""
        working = tuple(detector.working_at(place) for detector in inputs.detectors)
        return gather_evidence(
            inputs.sets, self.options, progress, detectors=working, pairing=inputs.pairing, review=inputs.review
        )

    def identity(self, evidence: SyntheticEvidence) -> dict[str, Any]:
        """Return images, features and settings; a review may change."""
        sets, pairing, options = evidence.sets, evidence.pairing, self.options
        features = [feature_identity(view.features.described) for view in evidence.views]
        measures = [view.measure for view in evidence.views]
        alone = len(features) == 1
        return {
            "training": sets.train.data_hash,
            "synthetic": sets.synthetic.data_hash,
            "held_out": None if sets.held is None else sets.held.data_hash,
            "features": features[0] if alone else features,
            "measure": measures[0] if alone else measures,
            "paired": None if pairing is None else fingerprint(pairing.synthetic, pairing.train),
            "plants": evidence.plants.n_required,
            "seed": options.seed,
            "level": options.level,
            "recall": options.recall,
            "pseudonymise": options.pseudonymise,
            **({} if sets.others is None else {"further_parts": sets.others.data_hash}),
            **({} if options.kinds == tuple(PLANT_KINDS) else {"plant_kinds": list(options.kinds)}),
        }

    def started(self, evidence: SyntheticEvidence) -> dict[str, Any]:
        """Record the numbers of features that were computed, and those that the cache already held."""
        tables = {view.name: view.features for view in evidence.views}
        return {
            "features_computed": sum(features.computed for features in tables.values()),
            "atlas": {
                name: {
                    "vectors": len(features.train),
                    "dimension": features.train.shape[1],
                    "computed": features.atlas_computed,
                }
                for name, features in tables.items()
            },
        }

    def write(self, run: RunFolder, evidence: SyntheticEvidence, names: Pseudonyms, progress: Progress) -> Result:
        """Test, decide, and write the tables, the pairs to judge and the page."""
        sets, options = evidence.sets, self.options
        write_manifests(run, {TRAIN: sets.train, SYNTHETIC: sets.synthetic, HELD_OUT: sets.held}, names)
        progress("testing", 0, 0)
        with kept_alignments(run / ALIGNMENTS, sets) as alignments:
            if alignments.known:
                run.log("goes on", alignments=len(alignments.known))
            result = analyse_synthetic(evidence, options, names, progress, alignments)
        ComparedImages.of(sets.synthetic, sets.train).write(run.path)
        result.save(run.path, beside=(COMPARED,))
        if (review := write_review(run.path, result.tables["review"])) is not None:
            run.log("asks", review=review.name)
        write_elsewhere(run.path, evidence.review.elsewhere)
        parts = parts_of({TRAIN: sets.train, SYNTHETIC: sets.synthetic}, names)
        pictures = pair_pictures(result, parts) if options.gallery and not options.redact else None
        write_report(run / REPORT, result, pictures=pictures, redact=options.redact)
        return result


def gather_evidence(
    sets: Sets,
    options: SyntheticOptions,
    progress: Progress,
    *,
    detectors: tuple[PairDetector, ...] = (),
    pairing: Pairing | None = None,
    review: Review = NO_REVIEW,
) -> SyntheticEvidence:
    """Hide the plants, compute features and all distances.

    Args:
        sets: Images of all parts.
        options: Settings with the detectors that compare the images.
        progress: Called with (stage, done, total).
        detectors: Detectors opened already; none to open those that the options name.
        pairing: Synthetic images with the training images that they were generated from.
        review: Judgements of pairs by a person.

    Raises:
        InputError: Features or the measure cannot be computed.
    """
    detectors = detectors or open_detectors(options, sets)
    progress("hiding known copies", 0, 0)
    plants = _draw(sets, options)
    hidden = insert_plants(sets.synthetic, plants, draw_seed(options, options.seed))
    device = str(check_device(options.device))
    views = []
    for name, detector, compares_real in zip(
        display_names(detectors), detectors, _compare_real(detectors), strict=True
    ):
        features = measure_features(detector, sets, hidden, options, progress)
        similarity = fit_similarity(detector, features, sets)
        distances = measure_distances(
            features, similarity, sets, plants, progress, review=review, device=device, compares_real=compares_real
        )
        spread = logit_histogram(similarity, features, sets) if isinstance(similarity, HeadSimilarity) else None
        views.append(DetectorView(name, features, similarity, distances, spread))
    copies = find_pixel_copies(sets, progress, review, plants)
    return SyntheticEvidence(sets, plants, tuple(views), copies, pairing, review)


def write_report(path: Path, result: Result, *, pictures: Pictures | None, redact: bool) -> None:
    """Render the report of a synthetic audit.

    Args:
        path: Path of the report.
        result: Result of `analyse_synthetic`.
        pictures: Pictures of pairs side by side; None for a page without pictures.
        redact: Whether to leave out ids and pictures.
    """
    write_text(path, render_page(synthetic_page(result, pictures, redact=redact)))
