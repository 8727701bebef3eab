"""Whether a profile has measured all operators of a network; nothing is assumed of those it has not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.operator import OperatorInput
from headgate.model.profile import Profile, Profiles, TickCosts
from headgate.statistics.profile_file import Measured

# no tuple comes: neither cost nor selectivity matters
_IDLE = Profile(0.0, 0.0, 0.0)
# how what was not measured names the costs of ticks; the names of operators have a dot
TICKS = "ticks"
_SHOWN = 3
_COMMAND = "headgate profile"


class NotMeasured(SetupError):
    """A prediction would rest on something that was not measured; the text says on what."""


def with_idle_operators(measured: Measured, network: Network) -> Measured:
    """The profile, in which operators that no tuple can reach cost nothing.

    They could not be measured, and need not be: by the selectivities below them nothing arrives.
    """
    profiles = dict(measured.profiles)
    silent: set[str] = set()
    for name, operator in network.operators.items():
        if all(isinstance(i, OperatorInput) and i.operator in silent for i in operator.inputs):
            profiles.setdefault(name, _IDLE)
            silent.add(name)
        elif name in profiles and profiles[name].selectivity == 0:
            silent.add(name)
    return replace(measured, profiles=profiles)


def idle_operators(measured: Measured, network: Network) -> tuple[str, ...]:
    """Operators that were not measured since no tuple reaches them."""
    return tuple(
        name
        for name in with_idle_operators(measured, network).profiles
        if name in network.operators and name not in measured.profiles
    )


def missing_operators(measured: Measured, network: Network) -> Mapping[str, str]:
    """Operators that tuples reach and that were not measured, and why not."""
    known = with_idle_operators(measured, network).profiles
    return {
        name: measured.not_measured.get(name, "it is not in the profile")
        for name in network.operators
        if name not in known
    }


def operator_profiles(measured: Measured, network: Network, origin: str, command: str = _COMMAND) -> Profiles:
    """The profiles of all operators of a network; raises if one was not measured.

    ``origin`` is where the profile is from, ``command`` measures it.
    """
    missing = missing_operators(measured, network)
    if missing:
        raise NotMeasured(
            f"{origin} has no profile of operator {with_reasons(missing)}; measure it with {command}"
        )
    known = with_idle_operators(measured, network).profiles
    return {name: known[name] for name in network.operators}


def tick_costs_of(measured: Measured, origin: str, command: str = _COMMAND) -> TickCosts:
    """The costs of ticks; raises if they were not measured."""
    if measured.tick is None:
        why = measured.not_measured.get(TICKS)
        raise NotMeasured(
            f"{origin} has no costs of ticks{f' ({why})' if why else ''}; measure them with {command}"
        )
    return measured.tick


def stream_rate(measured: Measured, stream: str) -> float:
    """Tuples per second of a stream; raises if they are not known."""
    if stream in measured.tuples_per_s:
        return measured.tuples_per_s[stream]
    per_s = measured.machine_bound.get(stream)
    only = "" if per_s is None else f", only that the profiled machine reads {per_s:,.0f} tuples/s of it"
    raise NotMeasured(f"no rate of stream {stream} is known{only}")


def with_reasons(missing: Mapping[str, str]) -> str:
    """What was not measured and why, in one line."""
    parts = [f"{name} ({reason})" for name, reason in missing.items()]
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more
