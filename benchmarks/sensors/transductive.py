"""Footsteps with and without the unlabelled test segments in the fit.

python benchmarks/sensors/transductive.py [--seeds 50 51 52] [--splits 2]

Seeds other than that of the tables. Percent right of all test segments, AUC of physical faults at
single sensors, and processor seconds of a fit.
"""

import argparse
import time

import numpy as np
from sklearn.metrics import roc_auc_score

from gemmed.acoustics import SegmentPCA
from gemmed.experiments.footsteps import data as footsteps
from gemmed.experiments.footsteps.runs import sensor_model


def compare(data, split):
    """Percent right, AUC and seconds, without and with the test segments."""
    train = footsteps.training_mask(data, footsteps.FULL_SIZE.n_train, split)
    components = [
        SegmentPCA(footsteps.N_COMPONENTS).fit(rows[train]).transform(rows)
        for rows in np.moveaxis(data.mfcc, 1, 0)
    ]
    known, new = footsteps.split_of(data, train, components, range(len(components)))
    more = {"X_new": new.columns, "order_new": new.starts, "groups_new": new.subjects}
    found = []
    for options in ({}, more):
        start = time.process_time()
        model = sensor_model(known, split)
        model.fit(known.columns, known.y, order=known.starts, groups=known.subjects, **options)
        seconds = time.process_time() - start
        where = {"order": new.starts, "groups": new.subjects}
        right = 100 * np.mean(model.predict(new.columns, **where) == new.y)
        seen = ~new.stale
        proba = model.screen(new.columns, **where).proba
        found.append([right, 100 * roc_auc_score(new.physical[seen], proba[seen]), seconds])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[50, 51, 52])
    parser.add_argument("--splits", type=int, default=2)
    options = parser.parse_args()
    rows = []
    for seed in options.seeds:
        data = footsteps.simulated_segments(seed, *footsteps.FULL_SIZE[:2])
        for split in range(options.splits):
            rows.append(compare(data, split))
            print(seed, split, np.round(rows[-1], 1).tolist(), flush=True)
    gains = np.array([with_new[:2] for _, with_new in rows])
    gains -= np.array([alone[:2] for alone, _ in rows])
    for name, own in zip(("right", "AUC"), gains.T, strict=True):
        print(f"{name}: {own.mean():+.2f} ± {own.std(ddof=1) / np.sqrt(len(own)):.2f}")


if __name__ == "__main__":
    main()
