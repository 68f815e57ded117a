"""What labels that may be wrong teach a function: P(t) of the sample, and costs by rates alone.

P(t) comes from the previous function. Its noise is low, but it has self-training bias: what that
function could not learn is called a wrong label. The rates of wrong labels alone also give the
right boundary (Natarajan et al. 2013). With rates e+ and e- of the two sides, labels of the first
cost 1 + e+ - e-, those of the second 1 - e+ + e-. This is unbiased, with all the noise of the
labels. Each of the two has a weight of one half (51).
"""

from __future__ import annotations

import numpy as np

from ..._core.types import FloatArray

OWN_OPINION = 0.5
"""Part of the say that P(t) has."""


def doubts(true_label: FloatArray, signs: FloatArray) -> FloatArray:
    """Probability that the sign of a sample is the other one, for every function.

    Parameters
    ----------
    true_label : P(t), shape (n_samples, n_classes)
    signs : shape (n_samples, n_functions), of two classes one function
    """
    positive = true_label[:, 1:] if signs.shape[1] == 1 else true_label
    found: FloatArray = np.clip(np.where(signs > 0, 1.0 - positive, positive), 0.0, 1.0)
    return found


def label_costs(rates: FloatArray, shares: FloatArray, signs: FloatArray) -> FloatArray:
    """Costs of the given labels, of the shape of ``signs``; all 1 if no side errs more.

    Parameters
    ----------
    rates : of wrong labels by true class, each other label alike, shape (n_classes,)
    shares : of the true classes, shape (n_classes,)
    """
    if signs.shape[1] == 1:
        more = rates[1:] - rates[:1]
    else:
        arriving = shares * rates / (len(rates) - 1)
        more = rates - (arriving.sum() - arriving) / np.maximum(1.0 - shares, 1e-12)
    costs: FloatArray = 1.0 + signs * more
    return costs


def lessons(doubt: FloatArray, costs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Doubt and cost of every sample with both opinions, each of the shape of ``doubt``."""
    other = OWN_OPINION * doubt
    total = OWN_OPINION + (1.0 - OWN_OPINION) * costs
    return other / total, total
