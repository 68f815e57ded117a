"""The interval of a share that was counted."""

from scipy import special


def share_interval(count: int, n: int) -> tuple[float, float]:
    """Exact 90 % interval (Clopper and Pearson) of a share: ``count`` of ``n`` were seen."""
    low = float(special.betaincinv(count, n - count + 1, 0.05)) if count else 0.0
    high = float(special.betaincinv(count + 1, n - count, 0.95)) if count < n else 1.0
    return low, high
