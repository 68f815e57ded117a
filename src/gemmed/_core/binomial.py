"""The interval of a share that was counted."""

from scipy import special


def share_interval(count: int, n: int, level: float = 0.9) -> tuple[float, float]:
    """Exact interval (Clopper and Pearson) of a share of which ``count`` of ``n`` were seen."""
    tail = (1.0 - level) / 2.0
    low = float(special.betaincinv(count, n - count + 1, tail)) if count else 0.0
    high = float(special.betaincinv(count + 1, n - count, 1.0 - tail)) if count < n else 1.0
    return low, high
