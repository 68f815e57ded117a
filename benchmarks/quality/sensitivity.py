"""What half and twice a prior does: python benchmarks/quality/sensitivity.py --data FOLDER

Every number of `gemmed.Priors` is halved and doubled, one at a time. One line per variant: average
precision (wrong labels, bad measurements), flagged good rows, and coverage of the share of wrong
labels. All are mean differences to the default, with standard errors over tables.
"""

import argparse
import warnings
from dataclasses import fields

import numpy as np
import pandas as pd
from cells import table_case, table_names
from sklearn.metrics import average_precision_score

from gemmed import GEMMEDClassifier, Priors

MAX_VALUES = {"power": 1.0, "bad_rate": 0.5}


def variants():
    yield "default", Priors()
    for field in fields(Priors):
        given = getattr(Priors(), field.name)
        for factor in (0.5, 2.0):
            value = tuple(factor * v for v in given) if isinstance(given, tuple) else factor * given
            if not isinstance(value, tuple):
                value = min(value, MAX_VALUES.get(field.name, value))
            yield f"{field.name} {given} -> {value}", Priors(**{field.name: value})


def measured(case, priors):
    model = GEMMEDClassifier(priors=priors, random_state=0).fit(case.Z, case.y)
    good = ~(case.wrong | case.bad)
    low, high = model.label_error_interval_
    found = {
        "good flagged": model.flagged()[good].mean(),
        "covers": low <= case.wrong.mean() <= high,
    }
    for name, fault, state in (("AP wrong", case.wrong, 1), ("AP bad", case.bad, 2)):
        if fault.any():
            found[name] = average_precision_score(fault, model.state_proba_[:, state])
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--tables", type=int, default=10, help="how many, evenly spaced")
    parser.add_argument("--cells", nargs="+", default=["mixed"])
    parser.add_argument("--rows", type=int, default=500)
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    names = table_names(options.data)
    names = names[:: max(len(names) // options.tables, 1)][: options.tables]
    cases = {
        (name, cell): table_case(options.data, name, cell, 0, options.rows)
        for name in names
        for cell in options.cells
    }
    usual = None
    for name, priors in variants():
        found = pd.DataFrame([measured(case, priors) for case in cases.values()]).astype(float)
        usual = found if usual is None else usual
        change = found - usual
        error = change.std() / np.sqrt(len(found))
        parts = [
            f"{c} {found[c].mean():.3f} ({change[c].mean():+.3f} ± {error[c]:.3f})" for c in found
        ]
        print(f"{name:36}", "  ".join(parts), flush=True)


if __name__ == "__main__":
    main()
