"""What the features of large samples cost in exactness, where the exact kernel can be had.

The same samples with the exact kernel (n_components=None) and with Nystroem features: how far
probabilities and decisions differ, and the accuracy of both.

python benchmarks/large/exactness.py [--quick]
"""

import sys

import numpy as np
from record import Record, parser, timed
from samples import data, rbf_width

from gemmed import GEMMEDClassifier, Solver


def main():
    options = parser(__doc__).parse_args()
    record = Record("exactness", options, ("n", "components"))
    for n in (500,) if options.quick else (1000, 2000, 4000):
        sample = data(n, flipped=0.1)
        given = {
            "gamma": rbf_width(sample.X),
            "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0},
        }
        exact = None
        for components in (None, "auto", n // 2):
            if record.find(n=n, components=str(components)):
                continue
            model = GEMMEDClassifier(
                solver=Solver(n_components=components), random_state=0, **given
            )
            _, wall, cpu = timed(model.fit, sample.X, sample.y)
            exact = model if components is None else exact
            difference = {}
            if exact is not None:
                nominal = np.abs(model.nominal_proba_ - exact.nominal_proba_)
                differs = model.predict(sample.X_test) != exact.predict(sample.X_test)
                difference = {
                    "mean_nominal_difference": float(nominal.mean()),
                    "other_predictions": float(differs.mean()),
                }
            record.add(
                n=n,
                components=str(components),
                seconds=wall,
                cpu=cpu,
                accuracy=float(model.score(sample.X_test, sample.y_test)),
                **difference,
            )


if __name__ == "__main__":
    sys.exit(main())
