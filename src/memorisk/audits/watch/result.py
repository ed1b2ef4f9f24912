"""Result of a watch: evaluations of a training, and what its page and the terminal say of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from memorisk.audits.watch.options import WatchOptions
from memorisk.images.identity import NO_DOUBT, DoubtedIds
from memorisk.report.numbers import to_json
from memorisk.report.quantities import Quantity, Units
from memorisk.statistics.multiple_testing.stopping import ErrorSpending

_PATIENTS = Units("n_train", "patients")
_SHARE = Quantity(
    "Memorized share at the last look",
    "percent",
    "memorized_share",
    _PATIENTS,
    p_value="p_value",
    low="share_low",
    high="share_high",
)
_NOMINAL = Quantity("The same of a generator that memorized nothing", "percent", "nominal")
_SAME_PIXELS = Quantity("Drawn images that are training images, at the last look", of=Units("n_images", "images"))
_LISTED = Quantity(
    "Training patients listed at the last look", figure="listed", of=_PATIENTS, missing="no list was possible"
)


@dataclass(frozen=True)
class Evaluation:
    """One look at a training. Limits are at 95 %; numbers are NaN where they could not be computed."""

    step: Annotated[int, Quantity("Last step looked at", figure="step")]
    """Step of the training."""
    number: int
    """Number of the look, from 1."""
    weights: str
    """Identifier of the weights that drew; empty where none was given."""
    n_images: int
    """Number of images that were drawn."""
    same_pixels: Annotated[int, _SAME_PIXELS]
    """Number of these that are a training image, pixel by pixel, as it is, mirrored or turned; images of one value, and
    images that held-out patients have, too, do not count."""
    held_out_pixels: int
    """Number of these that are a held-out image in the same way."""
    blank: int
    """Number of these that have one value only, and show no person."""
    n_train: int
    """Number of training patients, the units of every share."""
    n_held: int
    """Number of held-out patients."""
    share: Annotated[float, _SHARE]
    """Memorized share: share of the training patients that are nearer to the images than all but `nominal` of held-out
    ones."""
    share_low: float
    """Lower limit of the share."""
    share_high: float
    """Upper limit of the share."""
    nominal: Annotated[float, _NOMINAL]
    """Share of a generator that memorized nothing."""
    p_value: float
    """Exact p-value of the share: training and held-out patients in a random order."""
    error: float
    """Most that this look may add to the probability of a false stop."""
    share_floor: float
    """Lower limit of the share that fails with that probability."""
    listed: int
    """Number of training patients on the list of this look."""
    shortest_list: int
    """Smallest number that could have been listed; more than there are: no list was possible."""
    ahead: int
    """Number of training patients nearer than every held-out one."""
    p_ahead: float
    """p-value of at least so many in a random order."""
    train_nearest: float
    """Median distance of a training patient to the images."""
    held_nearest: float
    """Median distance of a held-out patient to them."""
    train_least: float
    """Smallest distance of a training patient."""
    held_least: float
    """Smallest distance of a held-out patient."""
    fid: float
    """Frechet distance of the images and the training images."""
    fid_low: float
    """Lower limit of the FID."""
    fid_high: float
    """Upper limit of the FID."""
    fid_same_number: float
    """Frechet distance of as many drawn images as there are held-out ones, where these are fewer."""
    fid_held_out: float
    """Frechet distance with held-out images in place of drawn ones: the value of real images."""
    fid_name: str
    """Name of the FID, with its features and numbers of images; empty where none was computed."""
    held_out_loss: float
    """Held-out loss of the training, as it was handed in."""
    loss_auc: float
    """Share of pairs of a training and a held-out patient in which the network's loss on the training patient is
    smaller; 0.5 without memory."""
    loss_auc_low: float
    """Lower limit of that share."""
    loss_auc_high: float
    """Upper limit of that share."""
    loss_p_value: float
    """One-sided p-value of that share as at most 0.5."""
    exceeded: bool
    """Whether this look shows what `stop_on` waits for."""
    go_on: bool
    """Whether the training is to continue."""
    note: str
    """Note on this look for the reader; empty for none."""

    @property
    def compared(self) -> bool:
        """Return whether any drawn image was compared."""
        return self.train_nearest == self.train_nearest

    @property
    def n_listed(self) -> Annotated[int | None, _LISTED]:
        """Number of listed patients; None where no list was possible."""
        return self.listed if self.compared and self.shortest_list <= self.n_train else None

    @property
    def words(self) -> str:
        """Summary of the look in a line."""
        copied = f", {self.same_pixels:,} drawn with the pixels of training images" if self.same_pixels else ""
        if not self.compared:
            return f"step {self.step:,}: {self.note}{copied}"
        listed = "no list was possible" if self.n_listed is None else f"{self.n_listed:,} listed"
        if self.share == self.share:
            share = f"{self.share:.1%} ({self.share_low:.1%} to {self.share_high:.1%})"
            line = f"step {self.step:,}: memorized {share} of {self.n_train:,} patients, {listed}"
        else:
            line = f"step {self.step:,}: no memorized share is known of {self.n_train:,} patients, {listed}"
        line += copied
        line += f", {self.fid_name} {self.fid:.4g}" if self.fid_name else ""
        line += f", held-out loss {self.held_out_loss:.4g}" if self.held_out_loss == self.held_out_loss else ""
        line += f", AUC of losses {self.loss_auc:.2f}" if self.loss_auc == self.loss_auc else ""
        line += "" if self.share == self.share or not self.note else f" ({self.note.rstrip('.')})"
        return line + ("" if self.go_on else "; to be stopped")


def evaluation_table(looks: Sequence[Evaluation]) -> pd.DataFrame:
    """Return a row for each look."""
    return pd.DataFrame([asdict(look) for look in looks], columns=[f.name for f in fields(Evaluation)])


@dataclass(frozen=True, kw_only=True)
class WatchedImages:
    """The real images that every look compares with, and by what."""

    n_train_images: int
    n_train_patients: int
    n_held_images: int
    n_held_patients: int
    one_image_each: bool
    """Whether patients count by one image each."""
    detector: str
    """Name of the detector."""
    weak: bool
    """Whether pixels are compared point by point."""
    features: str
    """Description of the features in a sentence."""
    train_hash: str
    """Hash of the training images."""
    held_hash: str
    """Hash of the held-out images."""
    ids: DoubtedIds = NO_DOUBT
    """Doubts about who is who among them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchResult:
    """Result of a watch: all looks at a training."""

    folder: Path | None
    """Folder with ``looks.parquet``, ``watch.jsonl``, ``listed.parquet`` and ``report.html``; None without one."""
    options: WatchOptions
    """Settings, with the rule that was taken."""
    real: WatchedImages
    looks: tuple[Evaluation, ...]
    """All looks, by step."""
    stop: Evaluation | None
    """The first look at which the rule says stop; None where none does."""
    may_stop: bool
    """Whether the training is ended where the rule says so."""
    listed: pd.DataFrame
    """Patients that each look listed."""
    rule: str
    """The rule and, of ``auto``, why it took that one, in a sentence."""
    warnings: tuple[tuple[str, str], ...]
    """Limits of every share that must not be missed: a title and one or two sentences each."""
    notes: tuple[str, ...]
    """Notes for the reader, one sentence each."""
    generator: str | None
    """Kind of memorisk's generator that draws; None for a user's own sample."""
    headline: str = ""
    """Conclusion after these looks; empty without a look."""

    @property
    def shown(self) -> Evaluation | None:
        """First look that shows memorization: the rule says stop, or drawn images are training images."""
        shows = (look for look in self.looks if look.same_pixels or look is self.stop)
        return next(shows, None)

    @property
    def shared(self) -> ErrorSpending:
        """Error of the rule over the looks."""
        return ErrorSpending(self.options.error, self.options.looks)

    def as_json(self) -> dict[str, Any]:
        """Return the looks, the step at which the rule says stop, and the conclusion."""
        return {
            "looks": [asdict(look) for look in self.looks],
            "stop": None if self.stop is None else self.stop.step,
            "headline": self.headline,
            "rule": self.rule,
            "notes": self.notes,
            **to_json(self.real.ids),
        }
