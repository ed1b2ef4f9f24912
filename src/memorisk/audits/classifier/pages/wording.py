"""The fixed wording of the classifier report: that of METHODS section 1, verdicts, assumptions, limits, a glossary.

It is apart from the pages' layout, so that a reader who checks what the report claims reads one file.
"""

from collections.abc import Sequence

from memorisk.scores.twin_attacks import ATTACKS as TWIN_ATTACKS
from memorisk.statistics.verdicts.levels import POWER, VERDICT_LEVEL, share_words
from memorisk.statistics.verdicts.scales import LossScale
from memorisk.statistics.verdicts.tiers import MIN_GROUPS

GATES = {
    "high": "no class may be in the HIGH tier (mean memorization above {high}) and no {unit} may be flagged",
    "moderate": "no class may reach the MODERATE tier (mean memorization {moderate} or more) and no {unit} may be "
    "flagged",
    "never": "none, so that nothing found here stops a pipeline; the status is that of the gate “high”",
}

DESIGNS = {
    "balanced": "Every image outside the test part was left out of exactly half of the models, in twin pairs: two "
    "models alike in everything but which half of the {units} they were trained on. Both halves hold as many images of "
    "each label, as nearly as can be.",
    "matched": "Pairs of twin models share the training part; the canary part was halved anew for each seed, one half "
    "for each twin. Only the canary part (15 % of the images) is scored.",
    "paper": "A candidate model was trained on the training and the canary part, an independent model on the training "
    "part only. The candidate has more data and more steps, so that its M mixes memorization with “more data helps”. "
    "Only the canary part (15 % of the images) is scored.",
}

OTHER_ATTACKS: dict[str, tuple[str, str]] = {
    "lira_offline": (
        "LiRA (offline)",
        "How unlikely the model's confidence would be for a model that never saw the image, from other models trained "
        "without it.",
    ),
    "lira_online": (
        "LiRA (online)",
        "The same, set against models trained with the image: more work for the attacker, and more power.",
    ),
    "rmia_offline": (
        "RMIA (offline)",
        "Compares how much the model favours the image with how much it favours images of other people.",
    ),
    "rmia_online": ("RMIA (online)", "The same, with models trained on the image as well."),
    "pia": (
        "PIA",
        "How well the generator predicts the noise that it sees in the image itself, once that is added to the image.",
    ),
    "pian": ("PIAN", "The same, with that noise scaled to the size of normal noise."),
    "secmi": (
        "SecMI-stat",
        "How far a step of the generator towards noise and back leads away from the image, after several steps.",
    ),
    "sima": ("SimA", "How little noise the generator sees in the image as it is."),
    "clid": (
        "CLiD",
        "How much better the generator predicts noise when it is given the class or caption of the image.",
    ),
    "guided_loss": (
        "Loss with guidance",
        "How small the generator's error on the image is, at all levels of noise together, when classifier-free "
        "guidance leads its prediction towards the image's own condition, at the scale at which it is released.",
    ),
}
"""Title and description of each attack that is not in `twin_attacks.ATTACKS`; pages do not load their code."""

_ON_GENERATORS = {
    "loss_threshold": "Takes an image for a member if the model's error on it is small, at all levels of noise "
    "together, each weighted as in M. Needs the weights only.",
    "lira_offline": "How unlikely the model's error would be for a model that never saw the image, from other models "
    "trained without it.",
}
"""Descriptions of attacks on generators, where they differ."""

PROTOCOLS = {
    "corrected": "the corrected form (the published question with its defects repaired)",
    "paper": "the paper's form (the published protocol, to be compared with published tables)",
}


UNFLAGGED = "An unflagged {unit} may be remembered, too: "
"""Words before what would have been noticed, where the audit fails; a pass has it among its reasons."""


def explained_attacks(attacks: Sequence[str], scale: LossScale) -> list[tuple[str, str]]:
    """Return title and description of those among some attacks that have one, in the order of their registries.

    Args:
        attacks: Names of attacks, as tables hold them.
        scale: Scale of the losses.
    """
    others = {} if scale.of_answers else _ON_GENERATORS
    words = {name: _words(name) for name in (*TWIN_ATTACKS, *OTHER_ATTACKS) if name in attacks}
    return [(title, others.get(name, text)) for name, (title, text) in words.items() if text]


def attack_title(attack: str) -> str:
    """Return the title of an attack; of another package's attack the title that it brings, while it is installed.

    Args:
        attack: Name of the attack, as tables hold it.
    """
    return _words(attack)[0]


def _words(attack: str) -> tuple[str, str]:
    """Return title and description of an attack."""
    if attack in TWIN_ATTACKS:
        return TWIN_ATTACKS[attack].title, TWIN_ATTACKS[attack].description
    return OTHER_ATTACKS.get(attack, (attack.replace("_", " "), ""))


def flagged_statement(level: str, trained_on: str) -> str:
    """Word what a flag means, with the numbers filled in (METHODS section 1, "Wording in every report")."""
    return (
        "Flagged: its loss gap exceeds what retraining and the other canaries do to unseen images of its class; at "
        f"most {level} of the flagged are expected to be such noise. It concerns models trained on {trained_on} by "
        "this recipe, not directly the released one, and not what an attacker without the twin can see: for that read "
        "the attack AUC."
    )


CORRECTIONS = {
    "bh": "Benjamini-Hochberg on the classes, then within them",
    "by": "Benjamini-Yekutieli on the classes, then within them",
    "bh-within": "Benjamini-Hochberg within each class by itself",
}


def assumptions(design: str, units: str, correction: str = "bh", *, has_placebo: bool = True) -> list[str]:
    """List the assumptions behind the numbers, for the design that ran.

    Args:
        design: Design of the trainings.
        units: Name of groups in the plural.
        correction: Correction of the list.
        has_placebo: Whether such an audit can add a placebo.
    """
    twins = [
        "p-values: for each class apart, the share of all sign flips of the seeds, over the scored images and the "
        "unseen test images of the same class, that reach the observed value. Images are ranked by M over its standard "
        "error, so that one noisy training lists no patient. Classes are never pooled: a pooled null is wrong "
        f"in rare classes. {units.capitalize()} with images in several classes are also ranked by how the trainings "
        "agree on all of these images, so that a class can list someone for images of another class.",
    ]
    paper = [
        "p-values: for each class apart, the share of unseen test images whose loss gap reaches the observed one. "
        "Sign flips are not used, since the candidate and the independent model do not play symmetric roles.",
    ]
    return [
        *(paper if design == "paper" else twins),
        f"The level of the list ({CORRECTIONS.get(correction, correction)}) is not a theorem: it rests on placebos, "
        f"whole audits in which there was nothing to find.{' --placebo adds one of these very images.' * has_placebo} "
        f"The verdict rests on a list at {100 * VERDICT_LEVEL:g} %, whatever level and correction the list below has.",
        "The test part chose no checkpoint, and training, canary and test part come from one random split by "
        f"{units[:-1]}. Where that does not hold, no p-values are given.",
        "Images that no model saw must look alike in the canary and the test part; this is checked for each class.",
        f"Intervals of class means are over trainings: of the mean over these very {units}, were the models trained "
        "again. They say nothing of others, and with fewer than three seeds they decide nothing.",
    ]


def limits(design: str, units: str, scale: LossScale) -> list[str]:
    """List what must not be read into the report."""
    origin = f"are those of the published method ({scale.moderate} and {scale.high})"
    if not scale.of_answers:
        origin = f"begin at {scale.moderate} and {scale.high} {scale.unit}: at the latter {scale.effect(scale.high)}"
    scored = (
        "models on about half of the data; the released model, trained on all, may remember each image less or more"
        if design == "balanced"
        else "models on less than the full data, and only for the canary part"
    )
    return [
        f"The report speaks of {scored}: |T|+|C|{'' if design == 'paper' else '/2'} images each, T the part that all "
        "models saw, C the canary part.",
        "A model that passes is not anonymous. It means that this audit, of this size, found no class and no "
        f"{units[:-1]} above the gate, and would have noticed a single {units[:-1]} of the stated gap in "
        f"{share_words(POWER)}. Smaller gaps, and {share_words(1 - POWER, units)} with that gap, stay unseen.",
        f"What would have been noticed is simulated: to unseen {units} of the class a gap is added whose spread over "
        f"seeds is that of gaps measured on real {units}. Where gaps differ more from training to training, less is "
        "noticed.",
        f"“Insufficient evidence” (fewer than {MIN_GROUPS} scored {units} in a class) never passes: too little was "
        "seen, not nothing found.",
        "“Cannot be tested” means that even the strongest finding possible could not have been distinguished from "
        "chance in a class of this size. It does not mean that nothing is memorized.",
        f"The tiers {origin}. They are conventions, not legal thresholds.",
        "Flagging works within a class: a class that is remembered as a whole shows in its mean, not in its list.",
    ]


_GLOSSARY = (
    (
        "Memorization (M)",
        "How much better the model does on an image because it was trained on that very image: the loss of a "
        "model that never saw it minus the loss of one that did. 0 means no difference; at 0.7 the model gives "
        "the right answer about twice the probability it would otherwise give it.",
    ),
    (
        "Feldman-Zhang",
        "Another measure of memorization: the share of models that are right about the image among those trained "
        "on it, minus that among the others. From few models it is coarse, as its standard error says.",
    ),
    ("Loss", "How surprised a model is by the right answer; 0 is not surprised at all."),
    (
        "Twin models",
        "Two models trained in the same way on the same data, except that each image under test is in only one of "
        "them.",
    ),
    ("{Unit} (group)", "{group}"),
    ("Canary", "An image whose memorization is measured: in one twin it was trained on, in the other it was not."),
    ("Null", "What the same calculation gives for images where nothing can have been memorized."),
    (
        "p-value",
        "How often chance alone would give a value at least as large. Small values speak against chance.",
    ),
    (
        "Interval (95 %)",
        "The range that, in 95 of 100 repetitions of such an audit, would hold the true value. A wide one means "
        "that little is known.",
    ),
    (
        "Flagged",
        "On the list of {units} whose memorization chance does not explain. The list is made so that only the "
        "stated share of it is expected to be there by chance.",
    ),
    (
        "Smallest list",
        "The fewest entries such a list could have in this class, given how little chance can be excluded.",
    ),
    (
        "Noticeable gap",
        "The smallest gap, in {loss_unit}, with which a single {unit} of a class would have been flagged in "
        f"{share_words(POWER)}. A gap of 2 {{loss_unit}}: {{two}}",
    ),
    (
        "Tier",
        "LOW: mean memorization below {moderate}. MODERATE: {moderate} to {high}. HIGH: above {high}. Insufficient "
        f"evidence: fewer than {MIN_GROUPS} scored {{units}}.",
    ),
    (
        "AUC",
        "How well an attack tells members of the training data from others: 0.5 is guessing, 1 is always right.",
    ),
    (
        "True and false positive rate",
        "Of the members, the share the attack finds; of the non-members, the share it wrongly calls members. An "
        "attacker who must be sure works at a low false positive rate.",
    ),
    (
        "Control",
        "An attack that cannot work. If it seems to work, the comparison is unfair and the others are not to be "
        "trusted.",
    ),
    ("Seed", "A number that fixes the chance in one training, so that it can be repeated."),
)


_TWO_NATS = "the model gives the right answer seven times the probability it would otherwise."
_OF_GENERATORS = {
    "Memorization (M)": "How much better the model reconstructs an image because it was trained on that very image: "
    "the loss of a model that never saw it minus the loss of one that did. 0 means no difference; at 1 it is one "
    "standard deviation (SD) of what two trainings differ by on images that neither saw.",
    "Feldman-Zhang": "",
    "Loss": "The model's error in reconstructing an image from noise, at all levels of noise together. A level counts "
    "the more, the less two models differ there on images that neither saw. The unit is such that these differences "
    "have the standard deviation 1.",
}
"""Meanings of words in reports on generators, where they differ; empty for a word that these do not have."""


def glossary(unit: str, units: str, scale: LossScale) -> Sequence[tuple[str, str]]:
    """Explain the words of the report to a reader without statistics.

    Args:
        unit: Name of a group in the singular.
        units: Name of groups in the plural.
        scale: Scale of the losses.
    """
    two = _TWO_NATS if scale.of_answers else f"{scale.effect(2.0)}, were gaps normally distributed."
    others = {} if scale.of_answers else _OF_GENERATORS
    meanings = [(word, others.get(word, meaning)) for word, meaning in _GLOSSARY]
    group = (
        "No patients were given with the data, so that each image counts as its own patient."
        if unit == "image"
        else "All images of one person, lesion or video, as given with the data. They are never divided between "
        "training and test, and they are flagged together."
    )
    values = {"unit": unit, "units": units, "Unit": unit.capitalize(), "group": group, "two": two}
    values |= {"loss_unit": scale.unit, "high": str(scale.high), "moderate": str(scale.moderate)}
    return [(word.format(**values), meaning.format(**values)) for word, meaning in meanings if meaning]
