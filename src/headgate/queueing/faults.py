"""What can be wrong with a queue: its figures, or that it has no steady state."""

from __future__ import annotations

import math

from headgate.errors import OverloadError, SetupError


class WrongFigure(SetupError, ValueError):
    """A rate, probability or time that none can be; a ValueError too, as library users expect."""


class Overloaded(OverloadError):
    """More work comes in than can be done: queues grow without end, so there is no figure to give."""

    def __init__(self, utilisation: float, what: str = "the queue") -> None:
        super().__init__(
            f"{what} is overloaded: utilisation {utilisation:.4g}, below 1 is needed; "
            f"lower the rates by more than {_excess(utilisation)}, or add as much capacity"
        )
        self.utilisation = utilisation
        self.what = what


def _excess(utilisation: float) -> str:
    return f"{1 - 1 / utilisation:.1%}" if math.isfinite(utilisation) else "all"


def check_amount(name: str, value: float) -> float:
    """The value as a float, unless it is negative, infinite or no number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise WrongFigure(f"{name} = {value!r} is wrong; write a number of 0 or more")
    return number


def check_share(name: str, value: float) -> float:
    """The value as a float, unless it lies outside of 0 up to, but not including, 1."""
    number = check_amount(name, value)
    if number >= 1:
        raise WrongFigure(f"{name} = {value!r} is wrong; write a share below 1, as in 0.99")
    return number
