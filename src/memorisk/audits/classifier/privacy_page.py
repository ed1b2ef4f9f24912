"""The section of the report on a regime: what it promises of privacy, and what was proved of it."""

from math import isfinite
from typing import Any

from memorisk.audits.classifier.reading import Reading
from memorisk.report.blocks import Block, Callout, Fact, Facts, Paragraph, Section
from memorisk.report.formats import count

_REGIMES = {
    "full": "Every weight was trained, without differential privacy.",
    "lora": "Low-rank adapters of the attention and the head were trained, without differential privacy.",
    "dp-lora": "Low-rank adapters of the attention and the head were trained under differential privacy.",
    "dp-full": "Every weight that belongs to a layer was trained under differential privacy.",
}


def privacy_section(reading: Reading) -> list[Section]:
    """The section, or none for a plain training whose epsilon nobody measured."""
    found = reading.summary.get("privacy")
    if not isinstance(found, dict) or (found.get("regime") == "full" and not found.get("bound")):
        return []
    regime, promise, bound = str(found.get("regime")), found.get("promise"), found.get("bound")
    blocks: list[Block] = [Paragraph(_REGIMES.get(regime, regime))]
    if isinstance(promise, dict):
        blocks += _promise(promise)
    if isinstance(bound, dict):
        blocks += _bound(bound)
    return [Section("What is promised of privacy, and what was proved", blocks, "privacy")]


def _promise(promise: dict[str, Any]) -> list[Block]:
    largest, known = int(promise.get("largest_group") or 0), bool(promise.get("patients_known"))
    whose = f"All images of a patient (at most {count(largest)})" if known else "All images of a patient"
    patient = _number(promise.get("per_patient_epsilon")) if known else "not known: no patient ids"
    facts = [
        Fact("Epsilon, one image added or removed", _number(promise.get("epsilon"))),
        Fact("One image replaced", _number(promise.get("replace_one_epsilon"))),
        Fact(whose, patient),
        Fact("Delta", f"{promise.get('delta'):g}"),
        Fact("Noise, in clipping norms", _number(promise.get("noise_multiplier"))),
        Fact("Steps, each with this share of the images", f"{count(promise.get('steps') or 0)}, "
             f"{100 * float(promise.get('sampling_rate') or 0):.2g} %"),
    ]  # fmt: skip
    return [
        Facts(facts),
        Paragraph(
            "The smaller epsilon, the less one image can change what the model does: the odds of any outcome change by "
            "a factor of at most e to the epsilon. It covers the trained weights, not the choice of settings, the "
            "number of images or pixel statistics of the data set. The models of this audit drew their noise from "
            "seeds, so that the audit can be repeated: they are not for release."
        ),
    ]


def _bound(bound: dict[str, Any]) -> list[Block]:
    pairs, correct = count(bound.get("r") or 0), count(bound.get("correct") or 0)
    blocks: list[Block] = [
        Paragraph(
            f"One more model was trained on one member of each of {pairs} pairs of mislabelled images. An auditor who "
            f"sees its losses named the right one {correct} times. So replace-one epsilon is at least "
            f"{_number(bound.get('low'))} (95 %); {pairs} pairs cannot prove more than "
            f"{_number(bound.get('largest_provable'))}. A bound of 0 shows no leak, and no safety either."
        )
    ]
    claimed, low = bound.get("claimed"), bound.get("low")
    if claimed is not None and low is not None and low > claimed:
        text = f"The measured bound exceeds the promised {_number(claimed)}: something breaks the promise."
        blocks.append(Callout("fail", "A promise is broken", [Paragraph(text)]))
    return blocks


def _number(value: Any) -> str:
    return "unbounded" if value is None or not isfinite(float(value)) else f"{float(value):.3g}"
