"""What a profile file may contain; null stands for a number that is not known."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from headgate.document import REQUIRED, Section, Tables, checked
from headgate.model.profile import Profile, Profiles, TickCosts
from headgate.quantity import BYTES, RATE, SECONDS, SELECTIVITY, Quantity

_MOST_ENTRIES = 100_000
_PROFILE = '{"seconds_per_tuple": 2e-6, "selectivity": 1.5, "bytes_per_tuple": 48}'
_Seconds = Annotated[float, SECONDS]
_Ratio = Annotated[float, SELECTIVITY]
_Rate = Annotated[float, Quantity(RATE.unit, 0, RATE.most)]
_Width = Annotated[float, Quantity(BYTES.unit, 0, BYTES.most)]
_Count = Annotated[int, Quantity("samples", 0, 1e15, is_whole=True)]


def _known(given: Any) -> Any:
    return {k: value for k, value in given.items() if value is not None} if isinstance(given, dict) else given


_Known = BeforeValidator(_known)


class _Profile(Section):
    example: ClassVar[str] = _PROFILE
    seconds_per_tuple: _Seconds = REQUIRED
    selectivity: _Ratio = Profile.selectivity
    bytes_per_tuple: _Width = Profile.bytes_per_tuple
    samples: _Count = Profile.samples
    seconds_per_tuple_error: _Seconds = Profile.seconds_per_tuple_error
    selectivity_error: _Ratio = Profile.selectivity_error


class _Tick(Section):
    example: ClassVar[str] = '{"overhead_s": 0.2, "intake_s": 1e-6, "work_s": 0.5}'
    overhead_s: _Seconds = REQUIRED
    intake_s: _Seconds = REQUIRED
    work_s: _Seconds = REQUIRED
    fixed_busy_s: _Seconds = TickCosts.fixed_busy_s
    stored_busy_s: _Seconds = TickCosts.stored_busy_s


_Operators = Annotated[
    dict[str, Annotated[_Profile, _Known]], Tables(_MOST_ENTRIES, f'{{"NAME": {_PROFILE}}}', 0)
]
_Rates = Annotated[dict[str, _Rate], Tables(_MOST_ENTRIES, '{"STREAM": 1000}', 0), _Known]


class _Document(Section):
    example: ClassVar[str] = f'{{"operators": {{"NAME": {_PROFILE}}}}}'
    operators: _Operators = REQUIRED
    tuples_per_s: _Rates = {}  # noqa: RUF012
    predicates: Annotated[
        dict[str, _Operators], Tables(_MOST_ENTRIES, f'{{"OPERATOR": {{"TEXT": {_PROFILE}}}}}', 0)
    ] = {}  # noqa: RUF012
    tick: Annotated[_Tick, _Known] | None = None


def measured_numbers(
    document: Any, origin: str
) -> tuple[Profiles, dict[str, float], TickCosts | None, dict[str, Profiles]]:
    """The arguments of ``Measured``."""
    whole: _Document = checked(_Document, document, origin)
    return (
        _profiles(whole.operators),
        whole.tuples_per_s,
        None if whole.tick is None else TickCosts(**dict(whole.tick)),
        {operator: _profiles(own) for operator, own in whole.predicates.items()},
    )


def _profiles(sections: dict[str, _Profile]) -> dict[str, Profile]:
    return {name: Profile(**dict(section)) for name, section in sections.items()}
