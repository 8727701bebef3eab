"""What a profile file may contain; null stands for a number that is not known."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator

from headgate.formats.document import REQUIRED, NamedTables, Section, checked
from headgate.formats.quantity import BYTES, PROCESSORS, RATE, SECONDS, SELECTIVITY, Quantity
from headgate.model.profile import Profile, Profiles, TickCosts

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
    spread: _Ratio = TickCosts.spread
    samples: _Count = TickCosts.samples
    work_error: _Ratio = TickCosts.work_error
    overhead_error_s: _Seconds = TickCosts.overhead_error_s
    least_s: _Seconds = TickCosts.least_s


_Operators = Annotated[
    dict[str, Annotated[_Profile, _Known]], NamedTables(_MOST_ENTRIES, f'{{"NAME": {_PROFILE}}}', 0)
]
_Texts = Annotated[dict[str, str], NamedTables(_MOST_ENTRIES, '{"OPERATOR": "TEXT"}', 0)]
_Rates = Annotated[dict[str, _Rate], NamedTables(_MOST_ENTRIES, '{"STREAM": 1000}', 0), _Known]


class _Document(Section):
    example: ClassVar[str] = f'{{"operators": {{"NAME": {_PROFILE}}}}}'
    operators: _Operators = REQUIRED
    tuples_per_s: _Rates = {}  # noqa: RUF012
    predicates: Annotated[
        dict[str, _Operators], NamedTables(_MOST_ENTRIES, f'{{"OPERATOR": {{"TEXT": {_PROFILE}}}}}', 0)
    ] = {}  # noqa: RUF012
    tick: Annotated[_Tick, _Known] | None = None
    not_measured: _Texts = {}  # noqa: RUF012
    machine_bound: _Rates = {}  # noqa: RUF012
    processors: Annotated[int, PROCESSORS] | None = None
    definitions: _Texts = {}  # noqa: RUF012


class MeasuredNumbers(NamedTuple):
    """The arguments of ``Measured``."""

    profiles: Profiles
    tuples_per_s: dict[str, float]
    tick: TickCosts | None
    predicates: dict[str, Profiles]
    not_measured: dict[str, str]
    machine_bound: dict[str, float]
    processors: int | None
    definitions: dict[str, str]


def measured_numbers(document: Any, origin: str) -> MeasuredNumbers:
    """What a document holds, checked."""
    whole: _Document = checked(_Document, document, origin)
    # stated ones have no number of samples
    empty = [n for n, own in whole.operators.items() if "samples" in own.model_fields_set and not own.samples]
    return MeasuredNumbers(
        _profiles({name: own for name, own in whole.operators.items() if name not in empty}),
        whole.tuples_per_s,
        None if whole.tick is None else TickCosts(**dict(whole.tick)),
        {operator: _profiles(own) for operator, own in whole.predicates.items()},
        {**dict.fromkeys(empty, "no tick measured it"), **whole.not_measured},
        whole.machine_bound,
        whole.processors,
        whole.definitions,
    )


def _profiles(sections: dict[str, _Profile]) -> dict[str, Profile]:
    return {name: Profile(**dict(section)) for name, section in sections.items()}
