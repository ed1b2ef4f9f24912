"""Does a model remember a mark that it saw once? ``memorisk audit feature``.

Paper 002, "Unintended memorisation of unique features in neural networks"; METHODS section 2. The auditor has the mark
and the model's answers; not the data, the label or the weights. Published form and corrected form side by side: M and
its Welch t-test over probes, and the rank of the mark among marks like it, or of the model among models without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.feature.mark_answers import MarkAnswers, answers_of_outputs, ask_about_marks, label_probabilities
from memorisk.audits.feature.marks import choose_controls, choose_mark, fitting_controls
from memorisk.audits.feature.options import FeatureOptions, feature_options
from memorisk.audits.feature.page import feature_page
from memorisk.audits.feature.result import (
    FeatureSummary,
    MarkDescription,
    ModelsAsked,
    OpacityZero,
    PublishedForm,
    RankNumbers,
    WhiteBox,
)
from memorisk.audits.feature.verdict import feature_verdict
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.runner import REPORT, Audit, run_audit
from memorisk.images.alterations.marks import Mark
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.blackbox.predictors import Predictor, load_predictor
from memorisk.models.blackbox.preprocessing import Preprocessing, preprocessing_from
from memorisk.report.numbers import to_json
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import fingerprint, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.scores.marks import PaperScore, WhiteBoxScore, paper_score, white_box_score
from memorisk.statistics.memorization.mark_rank import noticeable_shift, percentile_among, rank_mark, rank_p


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


@takes_settings(FeatureOptions)
def audit_feature(
    models: str | Sequence[str], *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> Result:
    """Audit whether models remember a mark.

    Args:
        models: A model or several that share the mark: ``module:function``, an ONNX file, or NAME@WEIGHTS, a
            network of timm or of memorisk with its weights.
        out: The run folder: new, empty, or one of the same audit to write again.
        progress: Called with (stage, done, total).
        **settings: Any field of `FeatureOptions`.

    Returns:
        The result, which is also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.

    Example:
        >>> audit_feature("net.onnx", mark="A", probes="probes/", normalise="0.13/0.31", out="runs/a")  # doctest: +SKIP
    """
    options = feature_options(settings)
    names = [models] if isinstance(models, str | Path) else list(models)
    inputs = {"models": [str(name) for name in names], "references": options.references, "probes": options.probes}
    inputs["mark"] = options.mark
    return run_audit(FeatureAudit(Path(out), options, inputs, {"the probes": options.probes}), progress)


class FeatureAudit(Audit[list[str], FeatureEvidence, Result]):
    """Audit of a mark."""

    kind = "feature"
    options: FeatureOptions

    def read(self, names: Pseudonyms, progress: Progress) -> list[str]:
        """Return the names of the models, which are loaded one after the other."""
        return list(self.given["models"])

    def collect(self, inputs: list[str], place: None, progress: Progress) -> FeatureEvidence:
        """Query every model with the mark and its controls."""
        return gather_answers(inputs, self.options, progress)

    def identity(self, evidence: FeatureEvidence) -> dict[str, Any]:
        """Return the models and the mark."""
        hidden = {"pseudonymise": True} if self.options.pseudonymise else {}
        return {"models": to_json(evidence.described), "mark": _mark_identity(evidence), **hidden}

    def write(self, run: RunFolder, evidence: FeatureEvidence, names: Pseudonyms, progress: Progress) -> Result:
        """Compute ranks and verdict, and write them with the page."""
        options = self.options
        result = names.result(analyse_feature(evidence, options))
        result.save(run.path)
        hidden = options.redact or options.pseudonymise
        marks = () if hidden or evidence.mark is None else (evidence.mark, *evidence.controls)
        write_text(run / REPORT, render_page(feature_page(result, marks, redact=options.redact)))
        return result


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


def analyse_feature(evidence: FeatureEvidence, options: FeatureOptions) -> Result:
    """Compute ranks, the paper's form, the verdict and the tables.

    Args:
        evidence: Answers of the models.
        options: Settings with the level and the gate.
    """
    own, theirs = evidence.models, evidence.references
    ranks = rank_mark(
        [a.statistic for a in own],
        np.array([a.controls for a in own]),
        [a.statistic for a in theirs],
        np.array([a.controls for a in theirs]) if theirs else None,
        level=options.level,
        seed=options.seed,
    )
    t = [np.array([a.statistic - float(np.mean(a.controls)) for a in answers]) for answers in (own, theirs)]
    by_references = ranks.method == "references"
    noticeable = noticeable_shift(*t, level=options.level, seed=options.seed) if by_references else float("inf")
    mark = evidence.mark
    ink = np.array([control.ink for control in evidence.controls]) if mark else np.full(ranks.n_controls, np.nan)
    controls = pd.DataFrame(
        {
            "control": [c.name for c in evidence.controls] or [f"control {i + 1}" for i in range(ranks.n_controls)],
            "ink": ink,
            "mean_log_kl": np.mean([a.controls for a in own], axis=0),
            "mean_kl": np.mean([a.controls_mean for a in own], axis=0),
            "reference_mean_log_kl": np.mean([a.controls for a in theirs], axis=0) if theirs else np.nan,
        }
    )
    statistic = float(np.mean([a.statistic for a in own]))
    reference = float(np.mean([a.statistic for a in theirs])) if theirs else float("nan")
    with_repeats = [a for a in (*own, *theirs) if np.isfinite(a.transparent)]
    papers = [[paper_score(a.mark, random) for random in a.random] for a in own if len(a.random)]
    summary = FeatureSummary(
        ranks=RankNumbers(rank=ranks, noticeable_log=noticeable),
        mean_kl_nats=float(np.mean([a.mark.mean() for a in own])),
        mean_log_kl=statistic,
        reference_mean_log_kl=reference,
        ink=mark.ink if mark else None,
        place_in_ink=percentile_among(mark.ink, ink) if mark else None,
        place_in_reference_kl=percentile_among(reference, controls["reference_mean_log_kl"]) if theirs else None,
        controls_kind=options.controls,
        n_controls_asked=options.n_controls if mark else ranks.n_controls,
        opacity_zero=OpacityZero(
            largest_kl_nats=_largest_answer(own, theirs),
            p=min((rank_p(a.transparent_log, a.controls) for a in with_repeats), default=None),
        ),
        published=_published(papers) if papers else None,
        white_box=evidence.white_box,
        n_probes=len(own[0].mark),
        moves=all(a.moves for a in own),
        models=evidence.described,
        mark=_describe_mark(evidence, options),
        level=options.level,
    )
    return Result(
        per_image=_per_probe(evidence),
        per_class=_per_class(own),
        summary=to_json(summary),
        verdict=to_json(feature_verdict(summary, options)),
        tables={"controls": controls, **_by_model(*t)},
    )


def _largest_answer(own: Sequence[MarkAnswers], theirs: Sequence[MarkAnswers]) -> float | None:
    """Return the largest divergence of any model at opacity 0; None where an audited model has no such answers.

    A reference without such answers, as in saved outputs, does not count: the measured power includes its effect.
    """
    divergences = [a.transparent for a in (*own, *theirs) if np.isfinite(a.transparent)]
    return max(divergences, default=0.0) if np.isfinite([a.transparent for a in own]).all() else None


def _by_model(own: np.ndarray, theirs: np.ndarray) -> dict[str, pd.DataFrame]:
    """Compute T of every model, which the references' test compares; nothing without references."""
    if not len(theirs):
        return {}
    audited = np.arange(len(own) + len(theirs)) < len(own)
    return {"models": pd.DataFrame({"audited": audited, "t": np.concatenate([own, theirs])})}


def _published(papers: list[list[PaperScore]]) -> PublishedForm:
    """Return the published M: its mean over redraws and models, and its spreads over redraws and models (B.1, B.2)."""
    by_model = np.array([[score.m for score in each] for each in papers])
    first = papers[0][0]
    return PublishedForm(
        m_nats=float(by_model.mean()),
        sd_over_redraws=float(by_model.std(axis=1, ddof=1).mean()) if by_model.shape[1] > 1 else None,
        range_over_models=float(np.ptp(by_model.mean(axis=1))) if len(by_model) > 1 else None,
        p_welch=first.p,
        mean_mark_nats=first.mean_mark,
        mean_random_nats=first.mean_random,
        n_redraws=by_model.shape[1],
        n_probes=first.n,
    )


def _per_probe(evidence: FeatureEvidence) -> pd.DataFrame:
    own = evidence.models
    kl = np.mean([a.mark for a in own], axis=0)
    ids = evidence.images or [f"probe {i}" for i in range(len(kl))]
    return pd.DataFrame({"image": ids, "kl": kl})


def _per_class(own: list[MarkAnswers]) -> pd.DataFrame:
    shift, clean = np.mean([a.shift for a in own], axis=0), np.mean([a.clean for a in own], axis=0)
    return pd.DataFrame({"label": [str(k) for k in range(len(shift))], "clean": clean, "shift": shift})


def _describe_mark(evidence: FeatureEvidence, options: FeatureOptions) -> MarkDescription:
    mark, hidden = evidence.mark, options.redact or options.pseudonymise  # a mark may be a name
    if mark is None:
        return MarkDescription(name=None if hidden else options.mark or None, kind="outputs", place=options.place)
    return MarkDescription(
        name=None if hidden else mark.name,
        kind=mark.kind,
        pixels=mark.shape,
        place=options.place,
        opacity=options.opacity,
        lit=mark.lit,
    )


def _mark_identity(evidence: FeatureEvidence) -> str:
    every = (evidence.mark, *evidence.controls) if evidence.mark else ()
    return fingerprint([[one.values.tobytes(), one.alpha.tobytes(), str(one.place)] for one in every])


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
        InputError: Two models answer alike to every probe and control.
    """
    peer: dict[bytes, str] = {}
    for answer, name in zip(answers, names, strict=True):
        if not answer.moves:
            continue  # all models that no mark moves are alike; the verdict says so
        key = answer.mark.tobytes() + answer.controls.tobytes()
        if key in peer:
            raise InputError(
                f"{one_line(peer[key], 80)} and {one_line(name, 80)} are the same model: it would count as several, or "
                "be its own reference; give each one once"
            )
        peer[key] = str(name)


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
