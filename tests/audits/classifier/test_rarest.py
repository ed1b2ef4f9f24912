"""The rarest class beside the most memorized one: what is said of a class of which there is hardly anything."""

from dataclasses import replace

from memorisk.audits.classifier.pages.memorization import _rarest_sentence
from memorisk.audits.classifier.result import RarestAgainstTop
from memorisk.report.page import inline_html


def test_a_class_of_two_images_is_not_called_the_most_memorized() -> None:
    pair = RarestAgainstTop(label_rarest="melanoma", n_rarest=2, mean_rarest_nats=1.5, label_top="melanoma", n_top=2)
    told = inline_html(_rarest_sentence(pair))
    assert "too few images to be compared" in told
    assert "most memorized" not in told
    assert "is also the most memorized one" in inline_html(_rarest_sentence(replace(pair, n_rarest=3)))
