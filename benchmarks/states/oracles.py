"""What could be said of the states by somebody who knows more: the oracles of ``limits.py``.

Wrong labels: classifiers cross-fitted to the true labels of undamaged rows, pooled with weights and
biases fitted to true labels, and the true rates. Bad rows: forests that have seen the true states
of other rows, and faults drawn anew from the same source. Both err on the side of the oracle: the
few weights that join their scores are fitted to the truth of the very rows that are judged.
"""

import numpy as np
from protocol import damage
from scipy import special
from scipy.optimize import minimize
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gemmed import MEDClassifier

FOLDS, BAD_FOLDS = 10, 5
DRAWN_AGAIN = 15
"""Draws of the same faults from which the oracle of bad rows learns."""
VOTES = 70.0
"""Forest probabilities are smoothed as if so many votes had been counted, as in the model."""
BIAS_SPREAD = 1.5
N_RATES, N_DRAWS = 200, 4000


def log_votes(probabilities):
    k = probabilities.shape[1]
    return np.log((VOTES * probabilities + 0.5) / (VOTES + 0.5 * k))


def scores_from(model, rows, n_classes):
    """Class scores, those of classes that the model has not seen a unit below the lowest."""
    if isinstance(model, RandomForestClassifier):
        found = np.zeros((len(rows), n_classes))
        found[:, model.classes_] = model.predict_proba(rows)
        return log_votes(found)
    values = model.decision_function(rows)
    if values.ndim == 1:
        values = np.column_stack([-0.5 * values, 0.5 * values])
    found = np.full((len(rows), n_classes), values.min() - 1.0)
    found[:, model.classes_] = values
    return found


def clean_trained(X, truth, others, gamma, seed):
    """Out-of-fold scores of classifiers that know the true labels of undamaged rows.

    Parameters
    ----------
    others : further readings of the same rows (damaged ones), each like X
    gamma : of GEM-MED's kernel

    Returns a list, for X and each of the others, of shape (n_members, n_samples, n_classes).
    """
    n_classes = int(truth.max()) + 1
    scaler = StandardScaler().fit(X)
    readings = [scaler.transform(rows) for rows in (X, *others)]
    members = (
        lambda: RandomForestClassifier(100, random_state=seed),
        lambda: MEDClassifier(gamma=gamma),
        lambda: SVC(C=1.0),
        lambda: SVC(C=10.0),
    )
    found = [np.zeros((len(members), len(truth), n_classes)) for _ in readings]
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for train, test in folds.split(X, truth):
        for number, make in enumerate(members):
            model = make().fit(readings[0][train], truth[train])
            for own, rows in zip(found, readings, strict=True):
                own[number, test] = scores_from(model, rows[test], n_classes)
    return found


def link(scores, truth):
    """A function from scores to p(t | x), weights and biases fitted to true labels.

    log p = sum_j b_j F_j + c up to a constant, b >= 0, c with a prior as wide as the model's.
    """
    k = scores.shape[2]

    def centred(values):
        return values - values.mean(axis=2, keepdims=True)

    spread = np.maximum(np.sqrt((centred(scores) ** 2).sum(axis=2).mean(axis=1)), 1e-300)
    F = centred(scores) / spread[:, None, None]
    given = np.eye(k)[truth]

    def objective(x):
        b, c = x[: len(F)], x[len(F) :]
        logs = special.log_softmax(np.einsum("j,jnk->nk", b, F) + c, axis=1)
        residual = np.exp(logs) - given
        value = -(logs * given).sum() + 0.5 * c @ c / BIAS_SPREAD**2
        slopes = np.einsum("jnk,nk->j", F, residual)
        return value, np.concatenate([slopes, residual.sum(axis=0) + c / BIAS_SPREAD**2])

    start = np.concatenate([np.full(len(F), 1.0 / len(F)), np.zeros(k)])
    bounds = [(0.0, None)] * len(F) + [(None, None)] * k
    x = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x

    def linked(values):
        scaled = centred(values) / spread[:, None, None]
        logs = np.einsum("j,jnk->nk", x[: len(F)], scaled)
        return special.softmax(logs + x[len(F) :], axis=1)

    return linked


def true_confusion(truth, wrong, bad, cell, n_classes):
    """T[t, y] of the rows with good measurements, by the truth: the same for all other labels."""
    good = ~bad
    if cell == "one-sided":
        sizes = np.maximum(np.bincount(truth[good], minlength=n_classes), 1)
        rates = np.bincount(truth[good], wrong[good], n_classes) / sizes
    else:
        rates = np.full(n_classes, wrong[good].mean())
    return confusion(rates)


def confusion(rates):
    k = len(rates)
    off = (rates / (k - 1))[:, None] * np.ones((k, k))
    off[np.arange(k), np.arange(k)] = 1.0 - rates
    return off


def wrong_given(p, y, T):
    """P(label wrong | x, given label) and the likelihood of the given label."""
    likelihood = np.maximum((p * T[:, y].T).sum(axis=1), 1e-300)
    right = p[np.arange(len(y)), y] * T[y, y]
    return 1.0 - right / likelihood, likelihood


def states_from(p, y, T, bad):
    """States from P(label wrong) among good rows and P(bad)."""
    wrong = (1.0 - bad) * wrong_given(p, y, T)[0]
    return np.column_stack([1.0 - wrong - bad, wrong, bad])


def states_of_nats(p, y, T, share, nats, class_shares):
    """States by (45) of model-states.md with known rates, nats for bad rows and p(t | x)."""
    given = p[np.arange(len(y)), y]
    wrong, good = wrong_given(p, y, T)
    ratio = np.exp(np.clip(nats, -30.0, 30.0)) * 0.5 * (class_shares[y] + given)
    odds = share * ratio / ((1.0 - share) * good)
    bad = odds / (1.0 + odds)
    return np.column_stack([(1.0 - bad) * (1.0 - wrong), (1.0 - bad) * wrong, bad])


def wrong_share_interval(p, y, cell, truth, usable, seed):
    """90 % interval of the share of wrong labels if only its rate is unknown (flat prior)."""
    k = p.shape[1]
    rng = np.random.default_rng(seed)
    touched = np.zeros(k)
    touched[np.argmax(np.bincount(truth)) if cell == "one-sided" else slice(None)] = 1.0
    grid = (np.arange(N_RATES) + 0.5) / N_RATES * (k - 1) / k
    logs, means, variances = [], [], []
    for rate in grid:
        wrong, likelihood = wrong_given(p[usable], y[usable], confusion(rate * touched))
        logs.append(np.log(likelihood).sum())
        means.append(wrong.sum())
        variances.append((wrong * (1.0 - wrong)).sum())
    chosen = rng.choice(N_RATES, N_DRAWS, p=special.softmax(logs))
    drawn = np.array(means)[chosen] + np.sqrt(variances)[chosen] * rng.normal(size=N_DRAWS)
    return np.quantile(np.round(np.maximum(drawn, 0.0)), (0.05, 0.95)) / len(y)


def log_odds(probability):
    return special.logit((VOTES * probability + 0.5) / (VOTES + 1.0))


def row_statistics(rows, own, reference):
    """Columns of a row and what undamaged rows say of them.

    Parameters
    ----------
    own : place of each row in the reference, -1 if it is not there; no row is its own neighbour
    reference : undamaged rows
    """
    centre, scale = reference.mean(axis=0), reference.std(axis=0) + 1e-12
    Z, R = (rows - centre) / scale, (reference - centre) / scale
    found = NearestNeighbors(n_neighbors=min(12, len(R))).fit(R).kneighbors(Z)
    distances = np.where(found[1] == own[:, None], np.nan, found[0])
    near = np.sort(distances, axis=1)[:, :10]
    precision = np.linalg.inv(
        np.cov(R, rowvar=False).reshape(R.shape[1], -1) + 0.1 * np.eye(R.shape[1])
    )
    misfit = (Z @ precision / np.sqrt(np.diag(precision))) ** 2
    ends = np.column_stack([(rows == reference.max(axis=0)).mean(axis=1), (rows == 0).mean(axis=1)])
    return np.column_stack(
        [Z, near[:, 0], np.nanmean(near, axis=1), misfit.sum(axis=1), misfit.max(axis=1), ends]
    )


def bad_rows_known(X, y, bad, nats, cell, undamaged, truth, seed):
    """P(bad) by somebody who knows the states of all other rows, and what the faults are like.

    A forest on the rows, their labels, the model's own nats and LOF, trained with the true states
    of other folds. In mixed cells a second forest, trained on the same kinds of faults, drawn again
    on undamaged rows of other folds. And the nats themselves. True states combine the three.
    """
    n, k = len(y), int(truth.max()) + 1
    Z = StandardScaler().fit_transform(X)
    lof = -LocalOutlierFactor(20).fit(Z).negative_outlier_factor_
    features = np.column_stack([Z, np.eye(k)[y], nats, lof])
    elsewhere, again = np.zeros((2, n))
    drawn = []
    if cell == "mixed":
        drawn = [damage(undamaged, truth, cell, 1000 + 50 * seed + d) for d in range(DRAWN_AGAIN)]
    folds = StratifiedKFold(BAD_FOLDS, shuffle=True, random_state=seed)
    for train, test in folds.split(X, bad):
        forest = RandomForestClassifier(100, random_state=seed).fit(features[train], bad[train])
        elsewhere[test] = forest.predict_proba(features[test])[:, 1]
        if not drawn:
            continue
        reference, place = undamaged[train], np.full(n, -1)
        place[train] = np.arange(len(train))
        parts, labels = [row_statistics(reference, place[train], reference)], [np.zeros(len(train))]
        for rows, _, _, faulty in drawn:
            chosen = train[faulty[train]]
            parts.append(row_statistics(rows[chosen], place[chosen], reference))
            labels.append(np.ones(len(chosen)))
        forest = RandomForestClassifier(100, random_state=seed)
        forest.fit(np.concatenate(parts), np.concatenate(labels))
        again[test] = forest.predict_proba(row_statistics(X[test], place[test], reference))[:, 1]
    joined = [log_odds(elsewhere), np.clip(nats, -30.0, 30.0)]
    if drawn:
        joined.append(log_odds(again))
    joined = StandardScaler().fit_transform(np.column_stack(joined))
    return LogisticRegression().fit(joined, bad).predict_proba(joined)[:, 1]
