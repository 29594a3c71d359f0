"""Statistics of repeats, as the scripts in this folder report them."""

import statistics


def figure(values, unit):
    """Returns the median with a 95 % interval (Student's t); a single value has no interval."""
    value, n = statistics.median(values), len(values)
    t = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)[min(n, 8) - 2]
    half = t * statistics.stdev(values) / n ** 0.5 if n > 1 else None
    low, high = (None, None) if half is None else (value - half, value + half)
    return {"value": value, "low": low, "high": high, "unit": unit, "n": n}
