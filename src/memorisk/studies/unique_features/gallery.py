"""The canaries of tables 1 and 2 as pictures, where the study's file asks for them (figure 2 of paper 002)."""

from collections.abc import Sequence

from memorisk.images.marks.marks import burn_stored
from memorisk.report.blocks import Block, Gallery, Name, Paragraph, Thumbnail
from memorisk.report.formats import decimal
from memorisk.report.frames import largest_first, numbers
from memorisk.report.thumbnails import data_uri
from memorisk.studies.unique_features.config import PLAIN
from memorisk.studies.unique_features.names import network_words
from memorisk.studies.unique_features.plan import INFLUENCE, RANDOM
from memorisk.studies.unique_features.reading import Answered, Reading

_MOST = 5


def canary_gallery(reading: Reading) -> list[Block]:
    """The canaries with the largest scores, as they were trained on.

    Args:
        reading: Every finished model.
    """
    items = []
    for role, score in ((RANDOM, "m_w"), (INFLUENCE, "m_paper")):
        for arm in reading.arms(role):
            if arm.regulariser != PLAIN:
                continue
            table = largest_first(reading.rows(arm, role), score)
            answers = {(a.training.index, a.training.run): a for a in reading.of(arm, role)}
            keys = zip(numbers(table, "index"), numbers(table, "run"), numbers(table, score), strict=True)
            for index, run, value in list(keys)[:_MOST]:
                items.append(_thumbnail(reading, answers[int(index), int(run)], score, value))
    if not items:
        return []
    return [
        Paragraph("These are images of the training data: handle the page as such."),
        Gallery(items=items, caption="Canaries with the largest scores, as they were trained on."),
    ]


def _thumbnail(reading: Reading, answer: Answered, score: str, value: float) -> Thumbnail:
    arm, job = answer.training.arm, answer.training.job
    data = reading.sets[arm.dataset]
    assert job.canary is not None
    row = int(job.rows[job.canary])
    picture = burn_stored(data.store.images[row : row + 1], data.mark)[0]
    words: Sequence = [
        [Name(f"{arm.dataset}, {network_words(arm.network)}")],
        f"image {row}, {'M_w' if score == 'm_w' else 'M'} {decimal(value)}",
        Name(data.classes[data.labels[row]]),
    ]
    return Thumbnail(data_uri=data_uri(picture), caption=words)
