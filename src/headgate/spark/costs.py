"""Costs: what a tuple takes in each operator, out of the time that whole ticks took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.runtime.least_squares import Floats, held

_LEAST_SECONDS = 1e-8
# how strongly an operator's figure is held to its last one: about as far as the times of like ticks differ
_HOLD = 0.3
# and how strongly the costs that are no operator's are held to nothing
_HOLD_REST = 0.1


@dataclass(frozen=True)
class Work:
    """What a tick did for a query: tuples that each operator took, tuples that had to be written to blocks or
    read from them, and the processor time of it all."""

    tuples: Mapping[str, float]
    stored: float
    seconds: float


@dataclass(frozen=True)
class Costs:
    """Seconds a tuple and their standard errors by operator; seconds of a tick before its first tuple, and of
    each tuple that it has to store."""

    seconds: Mapping[str, float]
    errors: Mapping[str, float]
    fixed_s: float
    stored_s: float


def explained(works: Sequence[Work], known: Mapping[str, float], memory: float) -> Costs:
    """The costs that explain ticks best, none below zero; a tick counts ``memory`` times the one after it.

    ``known`` are the operators' costs so far.
    """
    names = tuple(known)
    weights = memory ** np.arange(len(works) - 1, -1, -1)
    # beside the operators: what is stored, and what the jobs of a tick cost before their first tuple
    done = np.array([[*(w.tuples[n] for n in names), w.stored, 1.0] for w in works]) * weights[:, None]
    seconds = np.array([w.seconds for w in works]) * weights
    last = np.array(list(known.values()))
    told = done[:, : len(names)] @ last
    rest = done[:, len(names) :]
    hold_rest = _HOLD_REST * np.sqrt((rest**2).sum(axis=0) + 1e-12)
    # what ticks cannot tell apart keeps its proportions: all operators got faster or slower alike
    faster = _faster(told, rest[:, -1], hold_rest[-1], seconds)
    last = last * max(_LEAST_SECONDS, faster)
    hold = np.append(_HOLD * np.linalg.norm(seconds) / np.maximum(last, _LEAST_SECONDS), hold_rest)
    figures = held(done, seconds, hold, np.append(last, [0.0, 0.0]))
    errors = _standard_errors(done, seconds, figures, np.vstack([done, np.diag(hold)]))
    return Costs(
        {name: max(_LEAST_SECONDS, float(figure)) for name, figure in zip(names, figures, strict=False)},
        {name: float(error) for name, error in zip(names, errors, strict=False)},
        fixed_s=float(figures[-1]),
        stored_s=float(figures[-2]),
    )


def _faster(told: Floats, ticks: Floats, hold: float, seconds: Floats) -> float:
    """How many times as long as ``told`` ticks took, beside what each one takes anyway."""
    scale = max(float(np.linalg.norm(told)), 1e-30)
    figures = held(np.column_stack([told / scale, ticks]), seconds, (0.0, hold), np.zeros(2))
    return float(figures[0]) / scale


def _standard_errors(done: Floats, seconds: Floats, figures: Floats, explaining: Floats) -> Floats:
    """How far the figures may be off, judged by what they leave unexplained."""
    free = figures > 0
    errors = np.zeros(len(figures))
    left = seconds - done @ figures
    variance = left @ left / max(1, len(seconds) - int(free.sum()))
    used = explaining[:, free]
    # rounding may leave a diagonal a little below zero
    errors[free] = np.sqrt(variance * np.maximum(0.0, np.diag(np.linalg.pinv(used.T @ used))))
    return errors
