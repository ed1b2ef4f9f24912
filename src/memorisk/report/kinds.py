"""Kinds of runs: one entry per kind, with the words for it and the places of the functions that serve it.

Every list of kinds is read from `KINDS`: the pages of a run, the list of runs, the model card, the page for the
data-protection officer, the statement, the gate and the command line. A run names its kind in its settings
(``run: {audit: NAME}``). Another package adds a kind by an entry point of the group ``memorisk.audits``
(docs/extending.md, "An audit").

An entry holds places as text, ``package.module:name``, so that this module loads none of what it names: a gate runs
with Python's own library alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, Literal

from memorisk.runs.user_code.plugins import Registry

_AUDITS, _CLASSIFIER = "memorisk.audits", "memorisk.audits.classifier"
_COPY = "A copy shows the person's own image to everyone who gets the set."


@dataclass(frozen=True, kw_only=True)
class RunKind:
    """Kind of runs. An empty place means that runs of the kind have no such part."""

    name: str
    """Name of the kind, as in ``run: {audit: NAME}`` of a run's settings."""
    command: str = ""
    """Command that makes such a run, as in ``audit losses``."""
    function: str = ""
    """Place of the Python function, whose name `memorisk` has, too."""
    options: str = ""
    """Place of the dataclass of its settings."""
    first_screen: str = ""
    """Place of the function that says what a reader must see first of an outcome, a `first_screen.FirstScreen`; by
    default its verdict alone."""
    page: str = ""
    """Place of the function that lays out the page of a result."""
    pictures: str = ""
    """Place of the function that makes the pictures of the page from a result and the images of the run's parts
    (`audits.run_images.Parts`); empty where the page shows no images that lie in files."""
    statement: str = ""
    """Place of the function that describes a finished run for a statement."""
    reader: str = ""
    """Place of the function that opens a finished run that holds no `Result`."""
    last_file: str = ""
    """Name of the file that a run writes last, where this is not ``verdict.json``."""
    viewed: str = ""
    """Place of the class with the tables that ``memorisk view`` looks into."""
    question: str = "Another run"
    """Question of a run, in a list of runs."""
    title: str = ""
    """Title of a run in a model card."""
    subject: str = ""
    """Name of what was audited, where a statement has several runs."""
    looked_for: str = ""
    """Sentence on what was looked for, for a data-protection officer."""
    claim: str = ""
    """Clause on what a failure shows, for a data-protection officer; the headlines of all statuses are made of it."""
    faces: str = ""
    """Sentence on what a listed person faces, for a data-protection officer."""
    passed: str = "Passed"
    """Headline of a run that passes."""
    written_again: str = ""
    """Way to write the report again, where ``memorisk report`` cannot since the run holds no `Result`."""
    clears: Literal["", "images", "weights"] = ""
    """Parts that a run looks at completely, so that a pass allows their release."""
    chooses_images: bool = False
    """Whether a run leaves some images out and audits the others, which are in ``kept``."""
    lists_people: bool = False
    """Whether the verdict rests on a list of people, at the level and by the correction of `statement.LISTS`."""
    verdict_form: int = 0
    """Form of the rule that gives the verdict; runs of another form are refused (`verdict_forms`)."""
    of_twins: bool = False
    """Whether the verdict is that of twin models, which names the form in its rule and not in its schema."""

    @property
    def of_generated_set(self) -> bool:
        """Return whether the verdict is that of the audit of a generated set."""
        return self.clears == "images"

    def settings(self) -> tuple[str, ...]:
        """Return the names of the settings that such a run takes; none for a kind without a dataclass of them.

        Example:
            >>> [name for name in ("classifier", "generator") if "placebo" in KINDS[name].settings()]
            ['classifier']
        """
        return tuple(field.name for field in fields(load_part(self.options))) if self.options else ()


_OWN = (
    RunKind(
        name="classifier",
        command="audit classifier",
        function=f"{_CLASSIFIER}.run:audit_classifier",
        options=f"{_CLASSIFIER}.options:ClassifierOptions",
        first_screen=f"{_CLASSIFIER}.pages.audit:first_screen",
        page=f"{_CLASSIFIER}.pages.audit:classifier_page",
        pictures=f"{_CLASSIFIER}.pages.thumbnails:thumbnails",
        statement=f"{_AUDITS}.release.model_descriptions:describe_classifier",
        viewed="memorisk.view.patients:ClassifierRun",
        question="Which patients does the classifier remember?",
        title="Audit of a classifier",
        subject="the model",
        looked_for="Whether a model of this kind answers differently for a person because their images were in its "
        "training, and whether an outsider could tell from it who was.",
        claim="the model reveals who was in its training data",
        faces="Anyone who has the model and a person's image can try to tell whether they were a patient in the "
        "training data.",
        clears="weights",
        lists_people=True,
        verdict_form=12,
        of_twins=True,
    ),
    RunKind(
        name="losses",
        command="audit losses",
        function=f"{_CLASSIFIER}.losses:audit_losses",
        options=f"{_CLASSIFIER}.options:LossesOptions",
        first_screen=f"{_CLASSIFIER}.pages.audit:first_screen",
        page=f"{_CLASSIFIER}.pages.audit:classifier_page",
        statement=f"{_AUDITS}.release.model_descriptions:describe_classifier",
        viewed="memorisk.view.patients:ClassifierRun",
        question="Which patients do the models remember, by their losses?",
        title="Audit of losses",
        subject="the models",
        looked_for="Whether the models do better on the images of a person because these were in the training, and "
        "whether an outsider could tell from it who was.",
        claim="the models reveal who was in their training data",
        faces="Anyone who has the models and a person's image can try to tell whether they were a patient in the "
        "training data.",
        lists_people=True,
        verdict_form=12,
        of_twins=True,
    ),
    RunKind(
        name="generator",
        command="audit generator",
        function=f"{_AUDITS}.generator.run:audit_generator",
        options=f"{_AUDITS}.generator.options:GeneratorAuditOptions",
        first_screen=f"{_CLASSIFIER}.pages.audit:first_screen",
        page=f"{_AUDITS}.generator.page:generator_page",
        pictures=f"{_AUDITS}.generator.page:generator_pictures",
        statement=f"{_AUDITS}.release.model_descriptions:describe_classifier",
        viewed="memorisk.view.patients:ClassifierRun",
        question="Which patients does the generator remember?",
        title="Audit of a generator",
        subject="the generator",
        looked_for="Whether a generator of this kind reconstructs a person's images better because these were in its "
        "training, and whether an outsider who has the generator could tell from it who was.",
        claim="the generator reveals who was in its training data",
        faces="Anyone who has the generator and a person's image can try to tell whether they were a patient in the "
        "training data.",
        clears="weights",
        lists_people=True,
        verdict_form=12,
        of_twins=True,
    ),
    RunKind(
        name="feature",
        command="audit feature",
        function=f"{_AUDITS}.feature.run:audit_feature",
        options=f"{_AUDITS}.feature.options:FeatureOptions",
        first_screen=f"{_AUDITS}.feature.page:first_screen",
        page=f"{_AUDITS}.feature.page:feature_page",
        statement=f"{_AUDITS}.release.model_descriptions:describe_feature",
        question="Does the model remember a mark?",
        title="Audit of a mark",
        subject="one mark",
        looked_for="Whether the model reacts to one mark that it may have seen once.",
        claim="the model remembers one mark, such as a name in an image",
        faces="Anyone who can use the model and guesses the mark can try to tell whether it was in the training data.",
        passed="The mark was not found",
        clears="weights",
        verdict_form=4,
    ),
    RunKind(
        name="synthetic",
        command="audit synthetic",
        function=f"{_AUDITS}.synthetic.run:audit_synthetic",
        options=f"{_AUDITS}.synthetic.options:SyntheticOptions",
        first_screen=f"{_AUDITS}.synthetic.page:first_screen",
        page=f"{_AUDITS}.synthetic.page:synthetic_page",
        pictures=f"{_AUDITS}.synthetic.sections.pictures:pair_pictures",
        statement=f"{_AUDITS}.release.set_descriptions:describe_synthetic",
        viewed="memorisk.view.pairs:SyntheticRun",
        question="Do the synthetic images copy anybody?",
        title="Audit of a set of generated images",
        subject="generated images",
        looked_for="Whether generated images are copies of images of people in the training data.",
        claim="generated images are copies of images of people",
        faces=_COPY,
        passed="No copying of the kinds that were tried was found",
        clears="images",
        lists_people=True,
        verdict_form=5,
    ),
    RunKind(
        name="filter",
        command="filter",
        function=f"{_AUDITS}.filter.run:filter_synthetic",
        options=f"{_AUDITS}.filter.options:FilterOptions",
        first_screen=f"{_AUDITS}.filter.page:first_screen",
        page=f"{_AUDITS}.filter.page:filter_page",
        pictures=f"{_AUDITS}.comparison.pictures:closest_pairs",
        statement=f"{_AUDITS}.release.set_descriptions:describe_filter",
        last_file="filter.json",
        viewed="memorisk.view.pairs:FilterRun",
        question="Which synthetic images are copies?",
        title="Filter of a set of generated images",
        subject="images left out",
        looked_for="Which generated images are too close to training images, and whether the others are copies.",
        claim="kept images are copies of images of people",
        faces=_COPY,
        clears="images",
        chooses_images=True,
        lists_people=True,
        verdict_form=5,
    ),
    RunKind(
        name="synthesize",
        command="synthesize",
        function=f"{_AUDITS}.synthesize.run:synthesize",
        options=f"{_AUDITS}.synthesize.options:SynthesizeOptions",
        first_screen=f"{_AUDITS}.synthesize.page:first_screen",
        page=f"{_AUDITS}.synthesize.page:loop_page",
        statement=f"{_AUDITS}.release.set_descriptions:describe_loop",
        last_file="synthesize.json",
        question="Which images can be drawn and kept?",
        title="Images drawn, screened and drawn again",
        subject="images drawn anew",
        looked_for="Which drawn images are too close to training images, and whether the others are copies.",
        claim="kept images are copies of images of people",
        faces=_COPY,
        clears="images",
        chooses_images=True,
        lists_people=True,
        verdict_form=6,
    ),
    RunKind(
        name="watch",
        command="watch",
        function=f"{_AUDITS}.watch.run:watch_training",
        options=f"{_AUDITS}.watch.options:WatchOptions",
        first_screen=f"{_AUDITS}.watch.page:first_screen",
        statement=f"{_AUDITS}.release.watch_descriptions:describe_watch",
        reader=f"{_AUDITS}.release.integrity:open_watch",
        last_file="looks.parquet",
        question="Does the generator begin to memorize?",
        title="Looks at a generator in training",
        subject="the training",
        looked_for="Whether the generator began to repeat its training images while it was trained.",
        claim="the generator repeats its training images",
        faces="A repeated image shows the person's own image to everyone who draws from the generator.",
        written_again="its report is report.html in it, and watch with the same settings writes that again",
    ),
    RunKind(
        name="quality",
        command="quality",
        function=f"{_AUDITS}.quality.run:assess_quality",
        options=f"{_AUDITS}.quality.options:QualityOptions",
        first_screen=f"{_AUDITS}.quality.page:first_screen",
        page=f"{_AUDITS}.quality.page:quality_page",
        statement=f"{_AUDITS}.release.set_descriptions:describe_quality",
        reader=f"{_AUDITS}.release.integrity:open_quality",
        last_file="quality.json",
        question="How good are the synthetic images?",
        title="Figures of quality",
        subject="quality",
        looked_for="Only how good the generated images are, which says nothing of privacy.",
        claim="generated images are copies of images of people",
        written_again="its report is report.html in it, without images and ids, and quality with the same settings "
        "writes that again",
    ),
    RunKind(
        name="images",
        command="images check",
        function=f"{_AUDITS}.image_set.run:check_set",
        options=f"{_AUDITS}.image_set.options:CheckOptions",
        page=f"{_AUDITS}.image_set.page:check_page",
        last_file="check.json",
        viewed="memorisk.view.copies:CheckRun",
        question="Are the images fit to be audited?",
        written_again="its page is report.html in it, and images check with the same settings, or with --redact, "
        "writes that again",
    ),
)
KINDS = Registry[RunKind]("memorisk.audits", {kind.name: kind for kind in _OWN}, RunKind)
"""Kinds of runs by name: memorisk's own, then those of other packages."""


def kind_of(name: object) -> RunKind:
    """Return a kind by name; a statement may name one whose package is not installed here, and which clears nothing.

    Args:
        name: Name of the kind.
    """
    text = str(name)
    return KINDS[text] if text in KINDS else RunKind(name=text, title=f"Run of {text}", subject=text)


def named_kind(config: Mapping[str, Any]) -> str:
    """Return the name of the kind that a run's settings name; empty for runs that do not audit.

    Args:
        config: Settings of a run, as ``config.yaml`` holds them.
    """
    settings = config.get("run")
    return str(settings.get("audit") or "") if isinstance(settings, Mapping) else ""


def load_part(place: str) -> Any:
    """Import what an entry names.

    Args:
        place: Place of a function or class, ``package.module:name``.
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
