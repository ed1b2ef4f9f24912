"""What an audit of a mark rests on: the answers of the models to probes with and without the mark and its controls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.feature.mark_answers import MarkAnswers, answers_of_outputs, ask_about_marks, label_probabilities
from memorisk.audits.feature.marks import choose_controls, choose_mark, fitting_controls
from memorisk.audits.feature.options import FeatureOptions
from memorisk.audits.feature.result import (
    ModelsAsked,
    WhiteBox,
)
from memorisk.images.alterations.marks import Mark
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.blackbox.predictors import Predictor, load_predictor
from memorisk.models.blackbox.preprocessing import Preprocessing, preprocessing_from
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.workload import Progress
from memorisk.scores.marks import SAME, WhiteBoxScore, white_box_score


@dataclass(frozen=True, eq=False)
class FeatureEvidence:
    """Answers of the models, and their inputs.

    Attributes:
        models: Answers of each audited model.
        references: Answers of each reference model.
        mark: The mark; None where only outputs were given.
        controls: Controls of the mark; empty where only outputs were given.
        images: Ids of the probes; empty where only outputs were given.
        described: Description of models and preprocessing.
        white_box: M_w and its components; None unless the options request it.
        probes: Store of the probes; None where only outputs were given.
    """

    models: list[MarkAnswers]
    references: list[MarkAnswers]
    mark: Mark | None
    controls: list[Mark]
    images: list[str]
    described: ModelsAsked
    white_box: WhiteBox | None
    probes: ImageStore | None = None


def gather_answers(names: list[str], options: FeatureOptions, progress: Progress) -> FeatureEvidence:
    """Load every model once and query it with the mark and its controls.

    Raises:
        InputError: A model, the probes or the mark cannot be loaded.
    """
    if not names:
        raise InputError("no model: give module:function, an .onnx file, NAME@WEIGHTS, or saved outputs (.npz)")
    if any(str(name).lower().endswith(".npz") for name in names):
        return _answers_from_outputs(names, options)
    if not options.mark:
        raise InputError("no mark: name a letter, text:..., pattern:SEED or an image file with --mark")
    place = options.where
    mark = choose_mark(options, place)
    store = _probes(options, progress)
    preprocessing = _preprocessing(options, store)
    images = store.images
    mark.corner(images.shape[1], images.shape[2])
    controls = fitting_controls(
        choose_controls(mark, options, place, options.seed), images.shape[1], images.shape[2], mark
    )
    described: dict[str, tuple[Mapping[str, Any], ...]] = {}
    answers: dict[str, list[MarkAnswers]] = {"models": [], "references": []}
    label = _label_images(options, preprocessing, progress)
    scores: list[WhiteBoxScore] = []
    for what, group in (("models", names), ("references", options.references)):
        descriptions = []
        for i, name in enumerate(group):
            predictor = _load(name, preprocessing, options)
            descriptions.append(predictor.describe())
            stage = f"{'model' if what == 'models' else 'reference'} {i + 1} of {len(group)}"
            model_answers = ask_about_marks(
                predictor,
                preprocessing,
                images,
                mark,
                controls,
                draws=options.redraws if what == "models" else 0,
                seed=options.seed,
                progress=lambda done, n, stage=stage: progress(stage, done, n),
            )
            answers[what].append(model_answers)
            if what == "models" and label is not None:
                own = label_probabilities(
                    predictor, preprocessing, label.images, mark, label.class_of(predictor), seed=options.seed
                )
                scores.append(white_box_score(*own))
        described[what] = tuple(descriptions)
    _same_classes([*answers["models"], *answers["references"]])
    _refuse_duplicates([*answers["models"], *answers["references"]], [*names, *options.references])
    ids = [str(image) for image in store.manifest.images]
    white_box = None if label is None else _white_boxes(label.label, scores)
    description = ModelsAsked(preprocessing=preprocessing.describe(), probes=store.data_hash, **described)
    return FeatureEvidence(answers["models"], answers["references"], mark, controls, ids, description, white_box, store)


def _answers_from_outputs(names: list[str], options: FeatureOptions) -> FeatureEvidence:
    if len(names) > 1 or options.references or options.probes or options.white_box:
        raise InputError(
            "saved outputs are one file, with the references' outputs in it: leave other models, --references, "
            "--probes and --white-box out"
        )
    own, references, saved = answers_of_outputs(names[0], output=options.output)
    theirs = tuple({"name": f"reference {i + 1}"} for i in range(len(references)))
    described = ModelsAsked(models=(saved.describe(),), references=theirs)
    _refuse_duplicates([own, *references], [names[0], *(f"reference {i + 1}" for i in range(len(references)))])
    return FeatureEvidence([own], references, None, [], [], described, None)


def _probes(options: FeatureOptions, progress: Progress) -> ImageStore:
    if options.probes is None:
        raise InputError("no probes: name images that the model was not trained on with --probes")
    progress("reading the probes", 0, 0)
    manifest = load_manifest(options.probes, options)
    if manifest.n > options.n_probes:
        rng = np.random.default_rng([options.seed, 1])
        manifest = manifest.subset(np.sort(rng.choice(manifest.n, options.n_probes, replace=False)))
    store = build_store(manifest, options, progress=lambda d, n: progress("decoding probes", d, n))
    if len(store.images) < 2:
        raise InputError(f"{one_line(options.probes)} holds {len(store.images)} image: at least 2 probes are needed")
    return store


def _preprocessing(options: FeatureOptions, store: ImageStore) -> Preprocessing:
    if not options.normalise:
        raise InputError(
            "how the model's input is normalised was not said: --normalise imagenet, half, none or MEAN/STD, as the "
            "model was trained; marks on pixels that are scaled otherwise would measure nothing"
        )
    height, width, channels = store.images.shape[1:]
    return preprocessing_from(options.normalise, (int(height), int(width)), int(channels))


def _load(name: str, preprocessing: Preprocessing, options: FeatureOptions) -> Predictor:
    model, _, weights = name.partition("@") if not Path(name).is_file() else (name, "", "")
    return load_predictor(
        model,
        preprocessing=preprocessing,
        weights=weights or None,
        num_classes=options.num_classes,
        output=options.output,
        device=str(check_device(options.device)),
        threads=options.threads,
        python_path=options.python_path,
    )


def _same_classes(answers: list[MarkAnswers]) -> None:
    counts = sorted({len(a.shift) for a in answers})
    if len(counts) > 1:
        raise InputError(f"the models have {' and '.join(map(str, counts))} classes: give models of the same task")


def _refuse_duplicates(answers: list[MarkAnswers], names: Sequence[str]) -> None:
    """Refuse a model that is given twice: it would count as several, or be its own reference.

    Raises:
        InputError: Two models answer alike, up to rounding, to the clean probes, to every marked one and to controls.
    """
    # All models that no mark moves are alike; the verdict doubts them, audited models and references.
    seeing = [(a, name) for a, name in zip(answers, names, strict=True) if a.moved_by_mark or a.moved_by_controls]
    # Roots of divergences are distances, which rounding changes by as much as the logits; in logarithms of small
    # divergences rounding would be large. The classes' probabilities tell models apart that few probes do not.
    compared = [
        np.array([a.clean for a, _ in seeing]),
        np.sqrt(np.maximum([a.mark for a, _ in seeing], 0)),
        np.sqrt(np.maximum([a.controls_mean for a, _ in seeing], 0)),
    ]
    for i, (_, name) in enumerate(seeing):
        differences = [np.linalg.norm(rows[:i] - rows[i], axis=1) - SAME * np.linalg.norm(rows[i]) for rows in compared]
        same = np.flatnonzero(np.max(differences, axis=0) <= 0)
        if len(same):
            raise InputError(
                f"{one_line(seeing[same[0]][1], 80)} and {one_line(name, 80)} are the same model: it would count as "
                "several, or be its own reference; give each one once"
            )


@dataclass(frozen=True, eq=False)
class LabelImages:
    """Label and images that ``--white-box`` names."""

    label: str
    number: int | None
    """Number of the class in the model, as it was given; None for the place of the label among the images' labels."""
    classes: tuple[str, ...]
    """Labels of the images, sorted."""
    images: np.ndarray
    """Images of the label."""

    def class_of(self, predictor: Predictor) -> int:
        """Return the model's number of the class.

        Raises:
            InputError: The model has no such class, or another number of classes than the images have labels.
        """
        n = predictor.n_classes
        if self.number is None and n not in (None, len(self.classes)):
            label = one_line(self.label, 40)
            raise InputError(
                f"white_box names label {label!r} of images with {len(self.classes)} labels, and the model has {n} "
                f"classes: give NUMBER={label}@IMAGES, the model's number of the class"
            )
        number = self.classes.index(self.label) if self.number is None else self.number
        if n is not None and number >= n:
            raise InputError(f"white_box names class {number}; the model has classes 0 to {n - 1}")
        return number


def _label_images(options: FeatureOptions, preprocessing: Preprocessing, progress: Progress) -> LabelImages | None:
    """Return the label and its images that ``--white-box`` names; None without that option.

    Raises:
        InputError: The option names none, the images have no labels, or not this one.
    """
    if not options.white_box:
        return None
    named, _, source = options.white_box.partition("@")
    number, equals, label = named.partition("=")
    if not named or not source or (equals and not (number.isdigit() and label)):
        raise InputError(
            f"white_box is {one_line(options.white_box, 60)}; give LABEL@IMAGES, the label of the marked image and "
            "images with labels, or NUMBER=LABEL@IMAGES"
        )
    progress("images of the label", 0, 0)
    height, width = preprocessing.size
    reading = replace(options, size=height if height == width else None, channels=preprocessing.channels)
    manifest = load_manifest(source, reading)
    labels = [text.split("|") for text in manifest.labels]  # several findings are joined by it
    classes = tuple(sorted({name for names in labels for name in names} - {""}))
    if not classes:
        raise InputError(
            f"{one_line(source, 60)} has no labels, and M_w is about the images of one: give class folders or a table "
            "with labels"
        )
    class_name = label if equals else named
    if class_name not in classes:
        raise unknown_name("label of white_box", class_name, classes)
    images = build_store(manifest.subset(np.array([class_name in names for names in labels])), reading).images
    return LabelImages(class_name, int(number) if equals else None, classes, images)


def _white_boxes(label: str, scores: list[WhiteBoxScore]) -> WhiteBox:
    m = np.array([score.m for score in scores])
    return WhiteBox(
        label=label,
        m=float(m.mean()),
        mean_mark=float(np.mean([score.mean_mark for score in scores])),
        mean_random=float(np.mean([score.mean_random for score in scores])),
        n_images=scores[0].n,
        range_over_models=float(np.ptp(m)) if len(m) > 1 else None,
    )
