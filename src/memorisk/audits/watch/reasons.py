"""Reasons of a watch: what its looks showed, and why a watch that showed nothing does not pass."""

from memorisk.audits.watch.result import Evaluation
from memorisk.report.columns import count, percent
from memorisk.runs.errors import plural
from memorisk.statistics.verdicts.reasons import FAIL, LIMIT, Reason, Words

AUDIT_IT = "an audit of the set that is to be released (memorisk audit synthetic)"
RULES = {
    "share": "the memorized share lies above the rate without memorization, by its lower limit at this look's part of "
    "the error",
    "test": "the memorized share is larger than chance explains: its exact p-value is at most this look's part of the "
    "error",
    "listed": "a patient is listed with this look's part of the error as the level of the list",
    "never": "nothing: looks are only noted",
}
"""Rule at which a training stops, in words."""


class StoppedAt(Reason, code="watch-stopped", bears_on=FAIL):
    """Look at which the rule says stop."""

    n_step: int
    rule: str
    text = Words("memorization was shown at step {n_step:,}: {rule_words}; earlier steps may have memorized, too")
    plain = Words("at step {n_step:,} the generator drew images nearer to training people than chance explains")

    @property
    def rule_words(self) -> str:
        """Rule in words."""
        return RULES[self.rule]


class TrainingImagesDrawn(Reason, code="watch-same-pixels", bears_on=FAIL):
    """Drawn images that are training images, at the look with the most."""

    n_step: int
    n_images: int
    n_drawn: int
    n_looks: int
    """Number of looks that drew any."""
    text = Words(
        "at step {n_step:,}, {n_images:,} of {n_drawn:drawn image|drawn images} {n_images:|has|have} the very pixels "
        "of a training image, as it is, mirrored or turned ({n_looks:look|looks} drew such images); chance does not "
        "make them"
    )
    plain = Words(
        "at step {n_step:,} of the training, {n_images:,} of {n_drawn:drawn image|drawn images} {n_images:|was a "
        "training image|were training images}, point for point"
    )
    remedy = Words("an audit of the drawn images (memorisk audit synthetic), which names the patients in them")


class HeldOutDrawn(Reason, code="watch-held-out-pixels"):
    """Drawn images that are held-out images, which then give no null, at the look with the most."""

    n_step: int
    n_images: int
    n_drawn: int
    text = Words(
        "at step {n_step:,}, {n_images:,} of {n_drawn:drawn image|drawn images} {n_images:|has|have} the very pixels "
        "of a held-out image: the generator saw held-out patients, who then cannot serve as the comparison, or "
        "images as simple as these coincide"
    )
    plain = Words(
        "{n_images:,} of {n_drawn:drawn image|drawn images} {n_images:|was an image|were images} of people who "
        "should have had no part in the training, so that the comparison with these says little"
    )
    remedy = Words("held-out images that the generator cannot have seen")


class ChanceOfStop(Reason, code="watch-chance-of-stop", bears_on=LIMIT):
    """Probability of a stop without memorization."""

    error: float
    text = Words(
        "a generator that memorizes nothing comes to this at any look of its training with a probability of at most "
        "{error:.0%}"
    )
    plain = Words("a generator that repeats nothing is stopped in at most {error:100} of 100 trainings")


class LookShows(Reason, code="watch-look", bears_on=LIMIT):
    """Memorized share at a look, and its value without memorization."""

    look: Evaluation
    one_image_each: bool
    plain = Words("at the last look at the training {nearer}")

    @property
    def nearer(self) -> str:
        """Share in plain words."""
        look = self.look
        if not look.compared or look.share != look.share:
            return "nothing could be compared"
        return (
            f"{100 * look.share:.0f} in 100 training patients were nearer to the drawn images than nearly all new "
            f"ones, and {100 * look.nominal:.0f} in 100 would be by chance"
        )

    @Words
    def text(self) -> str:
        look = self.look
        listed = f"; {plural(look.listed, 'patient is', 'patients are')} listed" if look.listed else ""
        each = ", every patient by one image" if self.one_image_each else ""
        if look.blank == look.n_images:
            return f"at step {look.step:,} every drawn image has one value only: nothing could be compared"
        if not look.compared:
            return f"at step {look.step:,} no drawn image could be compared"
        if look.share != look.share:
            few = plural(look.n_held, "held-out patient is", "held-out patients are")
            return f"{few} too few to estimate the memorized share{listed}"
        return (
            f"at step {look.step:,}, {percent(look.share)} ({percent(look.share_low)} to {percent(look.share_high)}) "
            f"of {count(look.n_train)} training patients are nearer to the drawn images than all but "
            f"{percent(look.nominal)} of held-out patients are, judged by {count(look.n_held)} of them{each}; without "
            f"memorization {percent(look.nominal)} would be{listed}"
        )


class LossesDiffer(Reason, code="watch-losses"):
    """Losses of the network that tell its training patients from held-out ones, at the look where they do most."""

    n_step: int
    auc: float
    auc_low: float
    auc_high: float
    text = Words(
        "at step {n_step:,} the network's loss is smaller on a training patient than on a held-out one in {share} of "
        "pairs, half without memory: it remembers training patients, whether its images show them or not"
    )
    plain = Words(
        "the generator itself, apart from the images that were looked at, tells people of its training data from others"
    )
    remedy = Words("an audit of the generator itself before its weights are released (memorisk audit generator)")

    @property
    def share(self) -> str:
        """Share of pairs with its interval, in words."""
        return f"{percent(self.auc)} ({percent(self.auc_low)} to {percent(self.auc_high)})"


class LossesNotCompared(Reason, code="watch-no-losses", bears_on=LIMIT):
    """Looks at which the network's losses were not known, so that its drawn images alone were compared."""

    n_without: int
    n_looks: int
    text = Words(
        "at {n_without:,} of {n_looks:look|looks} the network's losses were not compared: what it remembers without "
        "drawing it can go unnoticed there"
    )
    plain = Words("only images of the generator were looked at, so that what it remembers unseen can go unnoticed")


class LookByItself(Reason, code="watch-look-by-itself"):
    """Look that by itself shows memorization, though the rule did not say stop."""

    n_step: int
    text = Words(
        "step {n_step:,} by itself points to memorization, though the rule did not say stop: its 95 % interval lies "
        "above the rate without memorization, or patients are listed; its error is not shared with other looks"
    )
    plain = Words(
        "one look at the training points to repeated training images, and the looks together do not settle it"
    )


class RuleOfWatch(Reason, code="watch-rule", bears_on=LIMIT):
    """Rule that stops the training, and why it was chosen."""

    rule: str
    text = Words("{rule}")
    plain = Words("a rule that was set before the training decided when to stop it")


class BlindLooks(Reason, code="watch-blind-looks"):
    """Looks that could not have shown memorization."""

    n_blind: int
    n_looks: int
    n_first_step: int
    text = Words(
        "{counted} could not have shown memorization: nothing was compared, or the error left to them is too small"
    )
    plain = Words("{n_blind:,} of {n_looks:look|looks} at the training could not have shown anything")

    @property
    def counted(self) -> str:
        """Number of looks, and the first of them, in words."""
        looks = plural(self.n_looks, "look", "looks")
        return f"{self.n_blind:,} of {looks} (the first at step {self.n_first_step:,})"


class NoProof(Reason, code="watch-no-proof"):
    """Limit of every watch without a stop."""

    text = Words(
        "a watch looks at few images while the generator changes: it shows memorization and never rules it out"
    )
    plain = Words(
        "only a few images were looked at while the generator changed, which can show copies and not exclude them"
    )
    remedy = Words(AUDIT_IT)
