"""Changes whose gain is predicted in Python."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _native

_REMOVED = "removed"
_HOST_LEVEL = "host batch"  # the name of this level on a CPU in C++
# A measured change comes before predicted ones if it gains at least this share of what the best one gains.
_COMPARABLE = 0.5


def make_change(
    kind: str, description: str, action: str, rate: _native.Measured, predicted: _native.Measured
) -> _native.Change:
    """Returns a change of code, with the predicted rate after it.

    Changes are created by the native model. It therefore gets a loop of two parts, one of which takes the time that
    the change removes. The predicted interval includes the one of `predicted`, and at least 2 %.

    kind: the id of the change. rate: the rate without it, which must be lower."""
    observed = _native.Observations()
    observed.workers, observed.slabs = 0, 1
    observed.set_plan(False, False, 1, False)
    cost = _native.HostStepCost()
    cost.name, cost.group = _REMOVED, "read"
    cost.wall_s, cost.cpu_s = [1 / rate.value - 1 / predicted.value], [0.0]
    observed.host = [cost]
    rest = [_level(name, _REMOVED, predicted) for name in (_native.DEVICE_LEVEL, _HOST_LEVEL)]
    observed.levels = [*rest, _level(_native.WHOLE_LEVEL, "", rate)]
    change = _native.what_if(observed, _native.diagnose(observed), {_REMOVED: 0.0})
    change.id, change.description, change.action, change.effort = kind, description, action, "code"
    return change


def _level(name: str, after: str, rate: _native.Measured) -> _native.Level:
    level = _native.Level()
    level.name, level.after, level.items, level.with_training = name, after, 1, rate
    return level


def best_gain(change: _native.Change) -> float:
    """Returns the measured gain of a change if there is one, otherwise the predicted one."""
    return change.measured_gain.value if change.measured.n > 0 else change.gain.value


def add_changes(
    diagnosis: _native.Diagnosis, changes: Sequence[_native.Change], impossible: Sequence[_native.Change] = ()
) -> None:
    """Adds changes to a diagnosis, and orders all.

    impossible: those that need another change first, which are listed last."""
    diagnosis.changes = [*changes, *diagnosis.changes]
    if diagnosis.bottlenecks:
        _native.rank_changes(diagnosis)
    elif diagnosis.changes:  # if input keeps up, the native order would leave out changes of Python
        ordered = sorted(diagnosis.changes, key=best_gain, reverse=True)
        least = 1 + _COMPARABLE * (best_gain(ordered[0]) - 1)
        diagnosis.changes = sorted(ordered, key=lambda each: each.measured.n == 0 or best_gain(each) < least)
    diagnosis.changes = [*diagnosis.changes, *impossible]
