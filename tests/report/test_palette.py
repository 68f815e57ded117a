"""Methods that appear in one figure can be told apart, without colour as well."""

import itertools

import pytest

from gemmed.experiments.ring.grid import METHODS as OF_THE_RING
from gemmed.report import palette
from gemmed.report.palette import SAME, SERIES, STYLES, method_style
from studies.recordings.runs import CLASSIFIERS as OF_RECORDINGS
from studies.robustness.methods import METHODS as OF_TABLES
from studies.sensors.comparison import METHODS as OF_SENSORS

FIGURES = {
    "ring": (*OF_THE_RING, "oracle"),
    "footsteps": (
        "SVM",
        "MED",
        "ROD-0.02",
        "ROD-0.2",
        "GEM+SVM",
        "GEM+MED",
        "GEM-MED",
        "late SVMs",
    ),
    "tables": tuple(OF_TABLES),
    "sensors": tuple(OF_SENSORS),
    "recordings": tuple(OF_RECORDINGS),
}
# Machado, Oliveira, Fernandes (2009), severity 1.
DEFICIENCIES = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def rgb(colour):
    return tuple(int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5))


def seen(colour, matrix):
    return tuple(sum(m * c for m, c in zip(row, rgb(colour), strict=True)) for row in matrix)


@pytest.mark.parametrize("figure", FIGURES)
def test_every_method_has_a_style_of_its_own(figure):
    names = FIGURES[figure]
    assert all(SAME.get(name, name) in STYLES for name in names)
    looks = [method_style(name) for name in names]
    assert len({(s.marker, str(s.line)) for s in looks}) == len(names)  # in grey
    assert len({s.colour for s in looks}) == len(names)
    assert len({s.hatch for s in looks}) == len(names)


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("figure", FIGURES)
def test_colours_that_look_alike_have_other_markers(figure, deficiency):
    matrix = DEFICIENCIES[deficiency]
    for one, other in itertools.combinations(FIGURES[figure], 2):
        a, b = method_style(one), method_style(other)
        pairs = zip(seen(a.colour, matrix), seen(b.colour, matrix), strict=True)
        distance = sum((x - y) ** 2 for x, y in pairs) ** 0.5
        assert distance > 0.15 or a.marker != b.marker, (one, other)


def test_series_differ_in_colour_marker_line_and_hatch():
    for part in range(4):
        assert len({str(style[part]) for style in SERIES}) == len(SERIES)
    assert method_style("somebody's method", 2) == SERIES[2]


def test_found_missed_and_false_differ_in_grey():
    shades = [
        sum(w * c for w, c in zip((0.299, 0.587, 0.114), rgb(colour), strict=True))
        for colour in (palette.HIT, palette.MISSED, palette.FALSE_ALARM)
    ]
    assert min(abs(a - b) for a, b in itertools.combinations(shades, 2)) > 0.1
