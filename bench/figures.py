"""What the scripts of this folder report of repeats."""

import statistics


def figure(values, unit):
    """The median with a 95 % interval (Student's t), which one value alone does not have."""
    value, n = statistics.median(values), len(values)
    t = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)[min(n, 8) - 2]
    half = t * statistics.stdev(values) / n ** 0.5 if n > 1 else None
    low, high = (None, None) if half is None else (value - half, value + half)
    return {"value": value, "low": low, "high": high, "unit": unit, "n": n}
