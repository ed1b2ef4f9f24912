"""Bands by layer: what is drawn, and that it can stand on a page."""

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from memorisk.report.figures.curves import layer_plot

SVG = "{http://www.w3.org/2000/svg}"


def bands(n=12):
    mean = np.linspace(0.5, 0.6, n)
    return mean, mean - 0.05, mean + 0.05


def test_every_series_has_a_line_a_band_and_a_name():
    drawn = layer_plot({"logistic <b>": bands(), "$one$": bands()}, y_title="AUROC", reference=0.5)
    root = ET.fromstring(drawn)
    texts = [node.text for node in root.iter(f"{SVG}text")]
    for text in ("logistic <b>", "$one$", "AUROC", "Layer, first to last", "12"):
        assert text in texts
    classes = [node.get("class", "") for node in root.iter()]
    assert any("f-blue" in c for c in classes)
    assert any("f-red" in c for c in classes)
    assert all("style" not in node.attrib for node in root.iter())
    assert drawn == layer_plot({"logistic <b>": bands(), "$one$": bands()}, y_title="AUROC", reference=0.5)


@pytest.mark.parametrize("n", [1, 2, 40])
def test_one_layer_many_layers_and_layers_without_a_value(n):
    mean, low, high = bands(n)
    assert "NaN" not in layer_plot({"a": (mean, low, high)}, y_title="y")
    gone = np.full(n, np.nan)
    drawn = layer_plot({"a": (gone, gone, gone)}, y_title="y")
    assert "nan" not in drawn.lower()
