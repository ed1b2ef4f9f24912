"""A finished classifier audit, opened again: its images, its plan, its score table, its models.

Nothing of the run is changed. What was decided by the run's settings (images, parts, designs) is computed again from
its ``config.yaml`` and checked against what the run left: the hash of its data, the ids of its score table, the files
of its models.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from memorisk.audits.classifier.evidence import SCORES, WHOLE, Evidence, Items, evidence_from_table
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.classifier.options import ClassifierOptions, TwinOptions, saved_options
from memorisk.audits.classifier.planning.plan import Plan, draw_parts, make_plan
from memorisk.audits.classifier.result import ClassifierVerdict
from memorisk.audits.classifier.twins.trainings import Recipe, make_jobs, prepare_recipe
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.rendering import load_result
from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.report.kinds import named_kind
from memorisk.runs.checksums import refuse_damaged
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json
from memorisk.runs.folder import is_hidden, other_settings, read_config
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.classifiers.jobs import WEIGHTS, TrainJob, build_network
from memorisk.training.classifiers.regimes import merge_adapters


@dataclass(frozen=True)
class FinishedRun:
    """A run and what it was made of.

    Attributes:
        folder: The run folder.
        options: Settings of the run, on the device requested now.
        store: Images of the run.
        plan: Parts, designs and items of the run.
        evidence: Score table of the run, under the ids that the run wrote (pseudonyms, where it has them).
        item_row: Row of the store for each item of ``evidence``, [I].
    """

    folder: Path
    options: ClassifierOptions
    store: ImageStore
    plan: Plan
    evidence: Evidence
    item_row: np.ndarray

    def recipe(self) -> Recipe:
        """Read the settings with which its models were trained.

        Raises:
            InputError: They came from the user's own function.
        """
        if self.options.train:
            raise InputError(
                f"{one_line(self.folder)} trained its models by the function {one_line(self.options.train, 60)}, which "
                "memorisk cannot build without training: use features of a named network or of a file"
            )
        return prepare_recipe(self.store, self.plan, self.options)

    def jobs(self) -> list[tuple[TrainJob, TrainJob]]:
        """Return the two trainings of each seed, in the order of the plan's designs."""
        return make_jobs(self.folder, self.store, self.plan, self.recipe(), self.options)

    def weights_file(self, job: TrainJob) -> Path:
        """Return the file of the weights that a training left.

        Raises:
            InputError: They were discarded, or are not those of this recipe.
        """
        path = self.folder / WEIGHTS / f"{job.key}.safetensors"
        if not path.is_file():
            why = "the run was made with --discard-weights" if self.options.discard_weights else "they are not there"
            raise InputError(
                f"probes look into the models of {one_line(self.folder)}, and the weights of seed {job.seed} are gone "
                f"({why}): run the audit again in a new folder and keep them, or leave the probes out"
            )
        return path

    def trained(self, job: TrainJob) -> nn.Module:
        """Return a model as the run left it.

        Raises:
            InputError: As ``weights_file``, or the file is damaged or of another network.
        """
        path = self.weights_file(job)
        refuse_damaged(path, "issue the run's command again")
        model = build_network(replace(job, weights="none"), self.store.images)
        merge_adapters(model)
        try:
            model.load_state_dict(load_file(path))
        except (SafetensorError, RuntimeError, OSError) as error:
            raise InputError(
                f"the weights {one_line(path.name)} do not fit the run's network: {one_line(error, 120)}"
            ) from None
        return model

    def before(self, job: TrainJob) -> nn.Module:
        """Return the network before it was fine-tuned on these images: with its pre-trained weights, or random ones.

        Raises:
            InputError: The pre-trained weights are no longer there.
        """
        model = build_network(job, self.store.images)
        merge_adapters(model)
        return model


def open_finished(
    folder: str | Path,
    *,
    images: str | Path | None = None,
    device: str = "auto",
    progress: Progress = no_progress,
) -> FinishedRun:
    """Open a finished classifier audit.

    Args:
        folder: The run folder.
        images: Present place of its images; by default the place that the run names.
        device: Device that its models run on.
        progress: Called with (stage, done, total).

    Raises:
        InputError: No finished classifier audit, its images are gone or changed, or its score table is of others.
    """
    path = Path(folder)
    config = read_config(path)
    if named_kind(config) != "classifier":
        raise InputError(
            f"{one_line(path)} holds no run of audit classifier: only that has images and models to look at"
        )
    _refuse_pseudonymised(config, path, images is not None)
    result = load_result(path)
    options = replace(saved_options(config), device=device)
    names = Pseudonyms.from_options(options)
    if config["run"].get("key_hash") != names.identity.get("key_hash"):
        raise InputError(
            f"{one_line(path)} was made with another pseudonym key, or by an earlier version, which drew patients "
            "without the key: put the pseudonym key it was made with back, or run the audit again in a new folder"
        )
    progress("reading the manifest", 0, 0)
    manifest = load_manifest(images if images is not None else config["images"], options)
    store = build_store(
        manifest, options, processes=options.processes, progress=lambda d, n: progress("decoding images", d, n)
    )
    if store.data_hash != ClassifierVerdict.read(result.verdict).data_hash:
        raise InputError(
            f"the images at {one_line(images if images is not None else config['images'], 120)} are not those of "
            f"{one_line(path)}: pixels, labels, groups or ids have changed since"
        )
    parts = draw_parts(
        store.manifest, linked_groups(store.pixel_hashes, store.manifest.groups), options, options.split_seed
    )
    plan = make_plan(store.manifest, parts, options)
    evidence = evidence_from_table(read_scores(path / SCORES))
    evidence = evidence.select(evidence.items.label != WHOLE)  # what is explained is explained by finding
    return FinishedRun(path, options, store, plan, evidence, _rows(evidence.items, plan, names, path))


def _refuse_pseudonymised(config: dict[str, Any], path: Path, images_given: bool) -> None:
    """Refuse a pseudonymised run whose paths this user does not know.

    Raises:
        InputError: A path is needed of which only a hash is known.
    """
    hidden = [name for name, value in config.items() if is_hidden(value) and name != "out"]
    if hidden and (hidden != ["images"] or not images_given):
        cure = (
            "name them with --images" if hidden == ["images"] else "look into it where the run was made, as that user"
        )
        raise InputError(
            f"{one_line(path)} was pseudonymised and does not tell where its {hidden[0].replace('_', ' ')} "
            f"{'are' if hidden[0] == 'images' else 'is'}: {cure}"
        )


def _rows(items: Items, plan: Plan, names: Pseudonyms, folder: Path) -> np.ndarray:
    """Return the store's row of each item of the score table, [I]."""
    plan_items = pd.MultiIndex.from_arrays([names.names(plan.items.image), plan.items.label])
    place = plan_items.get_indexer(pd.MultiIndex.from_arrays([items.image, items.label]))
    if len(items) != (plan.items.label != WHOLE).sum() or (place < 0).any():
        raise InputError(
            f"the score table of {one_line(folder)} names other images than its settings give: issue the run's command "
            "again"
        )
    return plan.item_row[place]


def refuse_fewer_seeds(folder: Path, options: TwinOptions) -> None:
    """Refuse to replace a result of more models by one of fewer.

    Args:
        folder: The run folder.
        options: Options of the command.

    Raises:
        InputError: The folder holds a result with seeds that this command leaves out.
    """
    if not (folder / "verdict.json").is_file():
        return
    before = ClassifierVerdict.read(read_json(folder / "verdict.json")).seeds
    if not set(before) <= set(options.chosen_seeds):
        raise InputError(
            f"--out {one_line(folder)} holds the result of {2 * len(before)} models, of which this command would leave "
            f"some out{other_settings(read_config(folder), asdict(options))}: ask for at least --models "
            f"{2 * len(before)} and the same seeds, or name another folder"
        )
