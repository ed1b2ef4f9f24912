"""Appendix of the officer's page: where its parts belong in an impact assessment and in the Opinion on AI models."""

from collections.abc import Mapping, Sequence

import pandas as pd

from memorisk.report.blocks import Block, Paragraph, Table, Text, words
from memorisk.report.statements.officer.words import plain_words

_BESIDE: Sequence[tuple[str, str, str]] = (
    (
        "What is released, and by whom it was audited",
        "(a) a systematic description of the processing and its purposes. The purposes are not on this page.",
        "Documentation of the model. Who audited it, inside or outside, is one of the elements authorities look at.",
    ),
    (
        "How many people",
        "(a) whose data, and how many. Whether fewer would do is a question of (b), necessity and proportionality, "
        "which no audit answers.",
        "Selection of the training data and its reduction to what is needed.",
    ),
    (
        "What was looked for",
        "(c) the risks to the rights and freedoms of the people.",
        "Whether personal data of people in the training data can be extracted from the model, or obtained from it by "
        "queries, intentionally or not.",
    ),
    (
        "What was found",
        "(c) how likely and how severe the risks are. The audit gives counts; severity is to be judged.",
        "Tests of resistance to attacks, such as membership inference and the repetition of training data. A model is "
        "anonymous only if the likelihood of extraction, and of obtaining data by queries, is insignificant.",
    ),
    (
        "What a person faces",
        "(c) what the risks mean for the people. How severe that is depends on what the images show.",
        "Consequences for the people, in a balancing of interests.",
    ),
    (
        "What would have been noticed",
        "(c) how far the assessment reaches.",
        "Scope, frequency and quality of the tests.",
    ),
    (
        "What was not looked at",
        "(c) risks that remain to be assessed by other means.",
        "All means reasonably likely to be used, by the controller or by another person; among them model inversion "
        "and reconstruction, which this audit does not try.",
    ),
    (
        "What to do next",
        "(d) measures to address the risks, safeguards and security.",
        "Measures taken in training and on the outputs of the model.",
    ),
    (
        "Who decides what",
        "Article 35(2): the controller seeks the advice of the data-protection officer. Article 36: where a high risk "
        "remains, the supervisory authority is consulted first.",
        "Whether a legitimate interest is a legal basis, and what follows from unlawful development, are further "
        "questions of the Opinion; this page says nothing of them.",
    ),
)


def appendix_blocks(parts: Mapping[str, Text]) -> list[Block]:
    """Match the sentences of each part with the questions of an impact assessment and of the Opinion.

    Args:
        parts: Text of each part of the page by its title.
    """
    rows = [(part, plain_words(parts[part]), *belongs) for part, *belongs in _BESIDE if part in parts]
    frame = pd.DataFrame(rows, columns=["part", "sentences", "assessment", "opinion"])
    columns = [
        words("part", "Part", row=True),
        words("sentences", "What this page says", wide=True),
        words("assessment", "Impact assessment, GDPR Article 35(7)", wide=True),
        words("opinion", "EDPB Opinion 28/2024 on AI models", wide=True),
    ]
    text = (
        "The table says where the sentences of a part may serve. It is not legal advice, and the audit is one piece of "
        "evidence among others. The model card and the statement of these runs hold every figure with its limits."
    )
    return [Paragraph(text), Table(frame=frame, columns=columns, caption="Each part, with the questions it bears on.")]
