"""Watch a training: every so many steps draw, compare with the training images, and say whether to continue.

METHODS section 5 applied to a generator in the middle of its training. In any loop:

    watch = MemorizationWatch(train, held_out, out="runs/watch", every=1000, looks=20)
    for step in range(1, 20_001):
        ...
        if watch.due(step) and not watch.look(step, sample=sample).go_on:
            break

In Lightning and in Trainer of ``transformers`` it is a callback (`audits.watch.callbacks`).
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from torch import nn

from memorisk.audits.comparison.knowledge import trained_on_more, unknown_weights
from memorisk.audits.watch.callbacks import lightning_callback, trainer_callback
from memorisk.audits.watch.drawn_images import Sample, preserve_random_state, sample_generator, sample_pipeline
from memorisk.audits.watch.evaluations import LISTED_COLUMNS, EvaluationLog, Tracker, open_trackers
from memorisk.audits.watch.loss_gaps import NoisePredictor, loss_fields, own_predictor, predictor_of
from memorisk.audits.watch.measurements import (
    EvaluationQuality,
    distances,
    evaluation_fields,
    exceeds_rule,
    nearness,
    pixel_fields,
)
from memorisk.audits.watch.options import WatchOptions, watch_options
from memorisk.audits.watch.page import watch_page
from memorisk.audits.watch.real_images import (
    Images,
    draw_features,
    match_channels,
    open_real,
    store_of_arrays,
    validate_images,
)
from memorisk.audits.watch.result import Evaluation, WatchedImages, WatchResult
from memorisk.audits.watch.verdict import (
    check_stopping_rule,
    choose_rule,
    evaluation_note,
    held_out_needed,
    rule_words,
    watch_verdict,
)
from memorisk.images.sources.overlap import path_sources, refuse_overlap
from memorisk.images.store import ImageStore
from memorisk.models.encoders.networks import state_fingerprint
from memorisk.models.generators.generators import Generator
from memorisk.models.settings import GeneratorConfig
from memorisk.report.columns import capitalized
from memorisk.report.page import render_page
from memorisk.runs.errors import InputError, plural
from memorisk.runs.files import json_value, write_text
from memorisk.runs.folder import CONFIG, check_out_folder, private_folder, write_config
from memorisk.runs.locks import folder_lock
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.multiple_testing.stopping import ErrorSpending, should_stop

if TYPE_CHECKING:
    from memorisk.training.generators.snapshots import Snapshot

REPORT = "report.html"
_SHOWN = ("log", "log_to", "redact")


class MemorizationWatch:
    """Looks at a training and keeps what it saw.

    Args:
        train: The images that the generator is trained on: a source as for `memorisk.load_manifest`, an `ImageStore`,
            or an array [N, H, W, C].
        held_out: Real images of patients that the training does not see. They choose where it stops, so that the audit
            of what comes out of it needs others.
        out: Folder for the looks, new, empty, or one of this watch; None: they are only returned.
        stop: Whether ``go_on`` may become False; otherwise looks are only noted.
        train_groups: Patients of the training images, [N], where these are an array.
        held_out_groups: Patients of the held-out images, [M], where these are an array.
        progress: Called with (stage, done, total).
        **settings: Any field of `WatchOptions`, as ``detector``, ``images``, ``every``, ``looks``, ``stop_on``. Where
            ``stop_on`` is left to it and held-out patients are too few for any rule, a warning says so.

    Raises:
        InputError: Bad input or settings, too few held-out patients for the rule that is to stop, or ``out`` holds
            something else or lies inside or around the images; nothing was written.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real = rng.integers(0, 256, (300, 8, 8, 1), dtype=np.uint8)
        >>> watch = MemorizationWatch(real[:150], real[150:], images=150, quality="none", looks=2)
        >>> watch.look(1, sample=lambda n, seed: real[:n]).share > 0.9  # a generator that gives its training images
        True
    """

    @takes_settings(WatchOptions)
    def __init__(
        self,
        train: Images,
        held_out: Images | None = None,
        *,
        out: str | Path | None = None,
        stop: bool = True,
        train_groups: Any = None,
        held_out_groups: Any = None,
        progress: Progress = no_progress,
        **settings: Any,
    ) -> None:
        self.options, self.stop, self.progress = watch_options(settings), stop, progress
        self.folder = None if out is None else Path(out)
        sources = path_sources({"the training images": train, "the held-out images": held_out})
        if self.options.log_to is not None:
            refuse_overlap(self.options.log_to, sources, called="log_to")
        if self.folder is not None:
            refuse_overlap(self.folder, sources)
            check_out_folder(self.folder, {}, identity=[])
        self.shared = ErrorSpending(self.options.error, self.options.looks)
        groups = {"train_groups": train_groups, "held_out_groups": held_out_groups}
        self.real = open_real(train, held_out, self.options, progress, **groups)
        self.chosen = self.options.stop_on == "auto"
        """Whether the rule was left to the number of held-out patients."""
        self.options = choose_rule(self.options, self.shared, self.real.n_held)
        if stop:
            check_stopping_rule(self.options, self.shared, self.real.n_held)
            if self.chosen and self.options.stop_on == "never":
                warnings.warn(f"This watch can stop nothing. {self.rule}", stacklevel=2)
        self._doubts: list[str] = []
        self.kind: str | None = None
        """Kind of memorisk's generator that draws (``dit``, ``gan``); None for a user's own sample."""
        self.quality = EvaluationQuality(self.real, self.options, progress)
        if self.folder is not None:
            check_out_folder(self.folder, self._config(), identity=["run"])
        self.book = EvaluationLog(self.folder)
        self._trackers: list[Tracker] | None = None

    @property
    def looks(self) -> tuple[Evaluation, ...]:
        """All looks so far, by step."""
        return tuple(self.book)

    @property
    def stopped_at(self) -> Evaluation | None:
        """First look at which the rule stops, whether or not the watch may stop; None without such a look."""
        looks = self.looks
        exceeded = [look.exceeded for look in looks]
        ends = (look for i, look in enumerate(looks) if should_stop(exceeded[: i + 1], self.options.patience))
        return next(ends, None)

    @property
    def rule(self) -> str:
        """Return which rule may stop the training and, of ``auto``, why that one, in a sentence."""
        return rule_words(self.options, self.shared, self.real.n_held, chosen=self.chosen)

    @property
    def warnings(self) -> tuple[tuple[str, str], ...]:
        """Return what limits every share and must not be missed: a title and a sentence or two each."""
        limits = [("Every patient counts by one image", self.real.counted.words)]
        limits += [
            ("It is not certain who is who", f"{capitalized(one.text)}: {one.remedy}.") for one in self.real.ids.reasons
        ]
        limits += [("Training patients that this watch does not cover", doubt) for doubt in self._doubts]
        return tuple((title, text) for title, text in limits if text)

    def know(self, generator: Generator) -> None:
        """Note further patients that a generator was trained on, about which the looks say nothing.

        Args:
            generator: Generator that draws, or will draw later.
        """
        self.kind = generator.config.kind
        more = trained_on_more(generator, self.real.train, "this watch")
        for doubt in (more and f"{more}.", unknown_weights(generator, self.real.train)):
            if doubt and doubt not in self._doubts:
                self._doubts.append(doubt)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes for the reader, one sentence each."""
        sentences = [text for _, text in self.warnings]
        sentences += self.real.notes
        needed = held_out_needed(self.options, self.shared.of_look(1))
        if self.real.n_held < needed:
            sentences.append(
                f"The rule ({self.options.stop_on}) can stop nothing: it needs {needed:,} held-out patients, and there "
                f"are {self.real.n_held:,}."
            )
        if self.chosen and self.options.stop_on == "never":
            sentences.append(
                f"{self.real.n_held:,} held-out patients are too few for any rule: nothing stops the training."
            )
        n_requested, n_train = self.options.images, self.real.n_train
        drawn = min([n_requested, *(look.n_images for look in self.looks)])
        if self.options.stop_on == "listed" and self.real.n_held >= needed:
            fewest = math.ceil(n_train / (self.shared.of_look(1) * (self.real.n_held + 1)))
            sentences.append(
                f"A list that stops the training holds at least {fewest:,} of {n_train:,} training patients, for want "
                "of more held-out ones."
            )
        if few := [look.step for look in self.looks if look.n_images < n_requested]:
            sentences.append(
                f"{plural(len(few), 'look', 'looks')} (the first at step {few[0]:,}) compared fewer images than the "
                f"{n_requested:,} that --images sets; the smallest number is {drawn:,}."
            )
        if drawn < self.options.nominal * n_train:
            sentences.append(
                f"{drawn:,} images a look can copy at most {drawn / n_train:.1%} of {n_train:,} training patients: "
                "draw more for the share to show that."
            )
        return tuple(sentences)

    def result(self) -> WatchResult:
        """Return what was seen so far."""
        real = self.real
        result = WatchResult(
            folder=self.folder,
            options=self.options,
            real=WatchedImages(
                n_train_images=len(real.train.images),
                n_train_patients=real.n_train,
                n_held_images=len(real.held.images),
                n_held_patients=real.n_held,
                one_image_each=real.counted.one_each,
                detector=real.detector.name,
                weak=real.detector.source.kind in ("pixels", "pca"),
                features=real.train_features.described.sentence,
                train_hash=real.train.data_hash,
                held_hash=real.held.data_hash,
                ids=real.ids,
            ),
            looks=self.looks,
            stop=self.stopped_at,
            may_stop=self.stop,
            listed=self.book.listed,
            rule=self.rule,
            warnings=self.warnings,
            notes=self.notes,
            generator=self.kind,
        )
        return replace(result, headline=watch_verdict(result).headline) if result.looks else result

    def due(self, step: int) -> bool:
        """Return whether a look is planned after this step."""
        return step > 0 and step % self.options.every == 0

    def look(
        self,
        step: int,
        sample: Sample | np.ndarray | ImageStore,
        *,
        held_out_loss: float | None = None,
        weights: str | nn.Module = "",
        network: Any = None,
    ) -> Evaluation:
        """Draw, compare, write down; a look at the same step and weights is found, not repeated.

        Args:
            step: Step of the training.
            sample: A function of (number of images, seed) that draws uint8 images [n, H, W, C] (the network in
                evaluation mode and without gradients is its matter), or images that were drawn already.
            held_out_loss: Held-out loss of the training, to be noted.
            weights: Identifier of the weights that draw, or the network: another training's look at the same step is
                then not taken for this one's.
            network: Network whose losses on training and held-out images are compared, ``(network, scheduler)`` or an
                object with ``loss(images, noise, level)``, as a training function of `audit_generator` returns it; or
                a generator of memorisk. None: losses are not compared.

        Returns:
            Evaluation; ``go_on`` is False where the training should stop.

        Raises:
            InputError: The function gives no such images, or the scheduler has no noise levels.
            UserCodeError: ``network`` is something else.
        """
        state = state_fingerprint(weights) if isinstance(weights, nn.Module) else weights
        if (earlier := self.book.look_at(step, state)) is not None:
            return earlier
        drawn = self._drawn(sample)
        if self.folder is not None:
            self._made_folder(self.folder)
        look, listed = self._measured(step, state, drawn, held_out_loss, self._predictor(network))
        for tracker in self.trackers:
            tracker.log(look)
        if self.folder is None:
            self.book.add(look, listed)
            return look
        with folder_lock(self.folder, wait=True):
            self.book.read()  # another process may have looked meanwhile
            if (earlier := self.book.look_at(step, state)) is not None:
                return earlier
            self.book.add(look, listed)
        return look

    def __call__(self, snapshot: "Snapshot") -> bool:
        """Look at the generator and return whether to continue, as ``on_snapshot`` of `memorisk.train_generator`."""
        generator = snapshot.generator
        self.know(generator)
        sample = sample_generator(generator, self.options.sampling(), self.options.device)
        loss, weights = snapshot.held_out_loss, generator.source
        return self.look(snapshot.step, sample, held_out_loss=loss, weights=weights, network=generator).go_on

    def pipeline(self, pipeline: Any, **how: Any) -> Sample:
        """Make a sample of a pipeline of diffusers; arguments as for `audits.watch.drawn_images.sample_pipeline`."""
        return sample_pipeline(pipeline, **{"batch": self.options.batch, **how})

    def lightning(self, sample: Callable[[Any, int, int], Any], *, held_out_loss: str = "val_loss") -> Any:
        """Make a callback for a Trainer of Lightning, which stops where this watch says so.

        Args:
            sample: A function of (module, number of images, seed); the module is in evaluation mode, without gradients.
            held_out_loss: The logged metric to note, where there is one.

        Raises:
            InputError: Neither ``lightning`` nor ``pytorch_lightning`` is installed.
        """
        return lightning_callback(self, sample, held_out_loss)

    def transformers(self, sample: Callable[[Any, int, int], Any], *, held_out_loss: str = "eval_loss") -> Any:
        """Make a callback for a Trainer of ``transformers``, which stops where this watch says so.

        Args:
            sample: A function of (model, number of images, seed); the model is in evaluation mode, without gradients.
            held_out_loss: The logged metric to note, where there is one.

        Raises:
            MissingExtraError: ``transformers`` is not installed.
        """
        return trainer_callback(self, sample, held_out_loss)

    @property
    def trackers(self) -> list[Tracker]:
        """Return where looks are also logged."""
        if self._trackers is None:
            self._trackers = open_trackers(self.options, self.folder)
        return self._trackers

    def report(self) -> Path | None:
        """Write ``report.html`` with all looks; where it is, or None without a folder or a look."""
        if self.folder is None or not len(self.book):
            return None
        write_text(self.folder / REPORT, render_page(watch_page(self.result(), redact=self.options.redact)))
        return self.folder / REPORT

    def close(self) -> None:
        """Close the logs."""
        for tracker in self._trackers or ():
            tracker.close()
        self._trackers = None

    def __enter__(self) -> "MemorizationWatch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drawn(self, sample: Sample | np.ndarray | ImageStore) -> ImageStore:
        """Return the drawn images, in the form of the real ones.

        Raises:
            InputError: They are something else, or another number than was requested.
        """
        if isinstance(sample, ImageStore):
            pixels = match_channels(
                np.asarray(sample.images[np.arange(len(sample.images))]), self.real.train, "the images"
            )
            return store_of_arrays(pixels, "drawn", cache=self.options.store)
        if callable(sample):
            self.progress("drawing images", 0, self.options.images)
            with preserve_random_state():
                images = validate_images(sample(self.options.images, self.options.seed), "the drawn images")
            if len(images) != self.options.images:
                raise InputError(f"{self.options.images} images were asked for, and {len(images)} were drawn")
        else:
            images = validate_images(sample, "the drawn images")
        return store_of_arrays(
            match_channels(images, self.real.train, "the drawn images"), "drawn", cache=self.options.store
        )

    def _predictor(self, network: Any) -> NoisePredictor | None:
        """Return the network of a look as a predictor of noise; None where there is none."""
        if network is None:
            return None
        if hasattr(network, "config") and isinstance(network.config, GeneratorConfig):
            return predictor_of(network, self.real, self.options.device)
        return own_predictor(network, self.options.device)

    def _measured(
        self, step: int, weights: str, drawn: ImageStore, held_out_loss: float | None, predictor: NoisePredictor | None
    ) -> tuple[Evaluation, pd.DataFrame]:
        """Compute a look and its list."""
        self.progress("comparing", 0, 0)
        number = self.book.next_number()
        error = self.shared.of_look(number)
        features = draw_features(self.real, drawn, self.options, no_progress)
        nearest = distances(self.real, features.values)
        pixels = pixel_fields(self.real, drawn)
        nothing = nearest is None or pixels["blank"] == len(drawn.images)
        near = None if nearest is None or nothing else nearness(nearest, self.real, self.options, error)
        exceeded = exceeds_rule(near, self.options, error, pixels["same_pixels"])
        before = [look.exceeded for look in self.book.before(step)]
        go_on = not (self.stop and should_stop([*before, exceeded], self.options.patience))
        few = "" if near is None or near.share.attained else f"{near.share.words}."
        loss = math.nan if held_out_loss is None else float(held_out_loss)
        numbers = {
            "step": int(step),
            "number": number,
            "weights": weights,
            "n_images": len(drawn.images),
            **pixels,
            "n_train": self.real.n_train,
            "n_held": self.real.n_held,
            "nominal": self.options.nominal,
            "error": error,
            "held_out_loss": loss,
            **loss_fields(predictor, self.real, self.options),
            "exceeded": exceeded,
            "go_on": go_on,
            "note": evaluation_note(
                nothing, error, len(drawn.images), 0 if nearest is None else nearest.compared, pixels, few
            ),
        }
        listed = pd.DataFrame({name: [] for name in LISTED_COLUMNS}, dtype=object) if near is None else near.listed
        listed = listed.assign(step=int(step)).reindex(columns=list(LISTED_COLUMNS))
        return Evaluation(**numbers, **evaluation_fields(near), **self.quality(drawn, features)), listed

    def _made_folder(self, folder: Path) -> None:
        """Make the folder, when there is something to write to it."""
        if not (folder / CONFIG).is_file():
            private_folder(folder)
            write_config(folder, self._config())

    def _config(self) -> dict[str, Any]:
        """Return the content of ``config.yaml``."""
        settings = {name: value for name, value in asdict(self.options).items() if name not in _SHOWN}
        return json_value(settings | {"run": self._identity()})

    def _identity(self) -> dict[str, Any]:
        """Return the settings and images that a later watch may not change in a folder."""
        described, o = self.real.train_features.described, self.options
        names = ("images", "looks", "nominal", "level", "stop_on", "error", "patience", "quality", "seed")
        drawn = ("sampler", "sampling_steps", "guidance")
        return {
            "audit": "watch",
            "training": self.real.train.data_hash,
            "held_out": self.real.held.data_hash,
            "detector": self.real.detector.name,
            "features": [described.encoder, described.weights_fingerprint, described.preprocessing],
            **{name: getattr(o, name) for name in (*names, *drawn)},
            **({"id_doubts": [doubt.as_record() for doubt in doubts]} if (doubts := self.real.ids.reasons) else {}),
        }
