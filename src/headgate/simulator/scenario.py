"""What is simulated: a network, figures of its operators, and when tuples arrive."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.operator import StreamInput
from headgate.model.profile import Profile, Profiles

_MOST_ENTRIES = 2e8
_MOST_TIME_UNITS = 5e6

Fate = Literal["page", "random"]
Service = Literal["constant", "exponential"]


@dataclass(frozen=True)
class Figures:
    """What an operator does to its input, per tuple; ``size_ratio`` is output width over input width."""

    seconds: float
    selectivity: float = 1.0
    size_ratio: float = 1.0
    service: Service = "constant"


@dataclass(frozen=True)
class Pool:
    """Processors that serve any operator, several the same one if they are more than one."""

    processors: int = 1


@dataclass(frozen=True)
class OnePerOperator:
    """Every operator has a processor of its own: a network of queues without scheduling."""


@dataclass(frozen=True)
class Scenario:
    """Everything that decides a run but the strategy.

    ``fate``: an entry is a page that shrinks by each selectivity, or a single tuple that survives or
    multiplies at random, by seed. With a ``time_unit_s`` work is interrupted at its multiples.
    """

    network: Network
    figures: Mapping[str, Figures]
    arrivals_s: Mapping[str, NDArray[np.float64]]
    bytes_per_tuple: Mapping[str, float] = field(default_factory=dict)
    """Width of a stream's tuples where it matters; 64 for the others."""
    time_unit_s: float | None = None
    processors: Pool | OnePerOperator = Pool()
    fate: Fate = "page"
    seed: int = 0

    def __post_init__(self) -> None:
        if missing := set(self.network.operators) - set(self.figures):
            raise SetupError(f"no figures for operator {min(missing)}; give its seconds and selectivity")
        if missing := set(self.network.streams) - set(self.arrivals_s):
            raise SetupError(f"no arrivals for stream {min(missing)}; give a list of times or a process")
        self._check_size()

    def _check_size(self) -> None:
        """Raise if the run would not end in a lifetime, or not fit into numbers."""
        # by the bytes too, since widths may grow without bound
        amounts = [load.bytes for load in self.loads.values()]
        if not math.isfinite(self.work_s + sum(amounts)):
            raise SetupError("seconds and selectivities multiply to more than can be counted; lower them")
        if self.entries > _MOST_ENTRIES:
            raise SetupError(f"about {self.entries:.3g} entries to serve are too many; lower selectivities")
        if self.time_units > _MOST_TIME_UNITS:
            cuts = f"a time unit of {self.time_unit_s:g} s cuts the run {self.time_units:.3g} times"
            raise SetupError(f"{cuts}; write a longer one")

    @staticmethod
    def from_profiles(
        network: Network, profiles: Profiles, arrivals_s: Mapping[str, NDArray[np.float64]], **settings: Any
    ) -> Scenario:
        """A scenario of measured operators; widths follow from those of their inputs."""
        widths = {
            stream: float(np.mean([profiles[leaf].bytes_per_tuple for leaf in network.leaves(stream)]))
            for stream in network.streams
        }
        figures = {}
        for name, operator in network.operators.items():
            own, source = profiles[name], operator.inputs[0]
            width = widths[source.stream] if isinstance(source, StreamInput) else own.bytes_per_tuple
            readers = [profiles[reader].bytes_per_tuple for reader in network.readers(name)] or [width]
            ratio = float(np.mean(readers)) / width if width > 0 else 1.0
            figures[name] = Figures(own.seconds_per_tuple, own.selectivity, ratio)
        return Scenario(network, figures, arrivals_s, widths, **settings)

    def width(self, stream: str) -> float:
        """Bytes of a tuple as it arrives."""
        return self.bytes_per_tuple.get(stream, Profile.bytes_per_tuple)

    @cached_property
    def loads(self) -> Mapping[str, Load]:
        """What is expected to come to each operator in all."""
        loads: dict[str, Load] = {}
        for name, operator in self.network.operators.items():
            tuples = amount_bytes = 0.0
            for source in operator.inputs:
                if isinstance(source, StreamInput):
                    arrived = float(len(self.arrivals_s[source.stream]))
                    tuples += arrived
                    amount_bytes += arrived * self.width(source.stream)
                else:
                    below, figures = loads[source.operator], self.figures[source.operator]
                    tuples += below.tuples * figures.selectivity
                    amount_bytes += below.bytes * figures.selectivity * figures.size_ratio
            loads[name] = Load(tuples, amount_bytes)
        return loads

    @cached_property
    def profiles(self) -> Mapping[str, Profile]:
        """The figures as strategies know them; widths of several inputs weigh by how much comes of each."""
        profiles = {}
        for name, figures in self.figures.items():
            if name in self.network.operators:
                load = self.loads[name]
                width = load.bytes / load.tuples if load.tuples > 0 else self._assumed_width(name)
                profiles[name] = Profile(figures.seconds, figures.selectivity, width)
        return profiles

    def _assumed_width(self, operator: str) -> float:
        """The width where nothing is expected to come: that of the first input."""
        source = self.network.operators[operator].inputs[0]
        if isinstance(source, StreamInput):
            return self.width(source.stream)
        return self._assumed_width(source.operator) * self.figures[source.operator].size_ratio

    @property
    def work_s(self) -> float:
        """Processor time that all arrivals are expected to take."""
        return sum(load.tuples * self.figures[name].seconds for name, load in self.loads.items())

    @cached_property
    def entries(self) -> float:
        """Entries that operators are expected to serve, all together."""
        if self.fate == "random":
            return sum(load.tuples for load in self.loads.values())
        served: dict[str, float] = {}
        for name, operator in self.network.operators.items():
            served[name] = sum(
                len(self.arrivals_s[source.stream])
                if isinstance(source, StreamInput)
                # a page goes on as one page, unless nothing is left of it
                else served[source.operator] * (self.figures[source.operator].selectivity > 0)
                for source in operator.inputs
            )
        return sum(served.values())

    @property
    def time_units(self) -> float:
        """How many time units the run is expected to take; 0 if there are none."""
        return (self.last_arrival_s + self.work_s) / self.time_unit_s if self.time_unit_s else 0.0

    @property
    def last_arrival_s(self) -> float:
        """When the last tuple arrives; 0 if none does."""
        return max((float(times[-1]) for times in self.arrivals_s.values() if len(times)), default=0.0)


@dataclass(frozen=True)
class Load:
    """Tuples, and bytes, that come to an operator over a whole run."""

    tuples: float
    bytes: float
