"""Colour, marker, line and hatch of every method, the same in every figure.

The colours are those of Okabe and Ito and of Paul Tol, which the colour-blind can tell apart. In
grey, markers, lines and hatches do it.
"""

from typing import Any, NamedTuple

BLACK, GREY, DARK_GREY, LIGHT_GREY = "#000000", "#8a8a8a", "#444444", "#dfe5ea"
BLUE, SKY, GREEN, ORANGE = "#0072b2", "#56b4e9", "#009e73", "#e69f00"
VERMILLION, PURPLE, YELLOW = "#d55e00", "#cc79a7", "#f0e442"
INDIGO, WINE, OLIVE = "#332288", "#882255", "#8a8a2a"
ROSE, SAND, BROWN = "#cc6677", "#c9b458", "#8c3b00"


class Style(NamedTuple):
    """How a method is drawn."""

    colour: str
    marker: str
    line: Any
    hatch: str
    """Of bars."""


STYLES = {
    "GEM-MED": Style(GREEN, "*", "-", ""),
    "GEM-MED with a forest": Style("#00664a", "h", (0, (6, 1)), "--"),
    "state model": Style("#332288", "d", "-", "O."),
    "GEM-MED K/1000": Style("#7fcbb3", "p", "--", ".."),
    "SVM": Style(GREY, "v", "-", "\\\\"),
    "MED": Style(DARK_GREY, "^", "-", "//"),
    "ROD-0.02": Style(ORANGE, "o", "--", "oo"),
    "ROD-0.2": Style(VERMILLION, "s", "--", "xx"),
    "ROD-0.6": Style(BROWN, "D", "--", "++"),
    "ramp": Style(PURPLE, "P", ":", "||"),
    "trimmed SVM": Style(WINE, "X", ":", "|"),
    "GEM+SVM": Style(SKY, "<", "-.", "\\"),
    "GEM+MED": Style(BLUE, ">", "-.", "/"),
    "LOF": Style(INDIGO, "d", (0, (1, 1)), "x"),
    "isolation forest": Style(OLIVE, "8", (0, (4, 1, 1, 1)), "+"),
    "cleanlab": Style(ROSE, "H", (0, (3, 2)), "o"),
    "random forest": Style("#b8860b", "P", (0, (5, 2)), "*"),
    "boosting": Style(SAND, "X", (0, (2, 2)), "."),
    "late SVMs": Style("#aa4499", "d", (0, (3, 1, 1, 1)), "-"),
    "yardstick": Style(SKY, "D", "-.", "||"),
    "oracle": Style(BLACK, "x", ":", "O"),
}

SAME = {
    "GEM + SVM": "GEM+SVM",
    "ROD": "ROD-0.02",
    "ramp SVM": "ramp",
    "RampSVC": "ramp",
    "IForest + SVM": "isolation forest",
    "IsolationForest + SVC": "isolation forest",
    "forest + views": "isolation forest",
    "LOF + SVM": "LOF",
    "LOF + views": "LOF",
    "GEM": "GEM+MED",
    "GEM, class by class": "GEM+SVM",
    "cleanlab SVM": "cleanlab",
    "cleanlab (SVC)": "cleanlab",
    "SVC": "SVM",
    "concatenated SVM": "SVM",
    "views": "MED",
    "GEM-MED, transductive": "GEM-MED K/1000",
    "HistGradientBoosting": "boosting",
    "SVC, clean rows only": "oracle",
    "gemmed, kernel tuned": "GEM-MED",
    "gemmed, kernel given": "GEM-MED K/1000",
    "prototype": "yardstick",
    "Nystroem + SGD": "late SVMs",
    "Nystroem + LinearSVC": "yardstick",
    "SVC of scikit-learn-intelex": "MED",
}
"""Other names of methods, and methods that stand for them in a comparison of their own."""

SERIES = (
    Style(BLUE, "o", "-", ""),
    Style(VERMILLION, "s", "--", "//"),
    Style(GREEN, "^", "-.", "xx"),
    Style(BLACK, "D", ":", ".."),
    Style(PURPLE, "P", (0, (6, 1, 1, 1)), "||"),
    Style(ORANGE, "v", (0, (1, 1)), "++"),
)
"""For series that are no methods: classes, cells, families of faults, sensors."""

CLASSES = (Style(INDIGO, "o", "-", ""), Style(ROSE, "s", "--", "//"))
"""Samples of two classes: no method that is drawn beside them has these colours."""
NOMINAL, ANOMALOUS = Style("#7a9bb0", "o", "-", ""), Style(VERMILLION, "s", "-", "////")
HIT, MISSED, FALSE_ALARM = BLUE, VERMILLION, YELLOW
"""A fault that was found, one that was not, and a finding that is none."""
REFERENCE_LINE = "#777777"


def series_style(index: int) -> Style:
    """The style of the series number ``index`` of a figure, for what is no method."""
    return SERIES[index % len(SERIES)]


def method_style(name: str, index: int = 0) -> Style:
    """The style of a method; methods that nobody named here take that of series ``index``."""
    return STYLES.get(SAME.get(name, name)) or series_style(index)
