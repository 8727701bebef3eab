"""CQL files in virtual time: operators from the plan, figures from an earlier run, arrivals as asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.cli.script import Script
from headgate.errors import SetupError, known_names
from headgate.model.measured import FILE_NAME, Measured, beside
from headgate.model.network import Network
from headgate.planning.stages import Stages
from headgate.simulator import Pool, Scenario
from headgate.simulator.fate import key_of
from headgate.workload.listed import Listed
from headgate.workload.registry import process_named
from headgate.workload.times import TimesProcess


@dataclass(frozen=True)
class MeasuredOptions:
    """What a CQL file needs beside itself: ``rates`` and ``traces`` are ``STREAM=VALUE`` each."""

    profile: Path | None = None
    rates: Sequence[str] = ()
    traces: Sequence[str] = ()
    for_s: float | None = None
    processors: int | None = None

    @property
    def given(self) -> list[str]:
        """The options that were used."""
        options = {
            "--profile": self.profile,
            "--rate": self.rates,
            "--trace": self.traces,
            "--for": self.for_s,
            "--processors": self.processors,
        }
        return [name for name, value in options.items() if value]


def measured_scenario(file: Path, options: MeasuredOptions, seed: int) -> Scenario:
    """Plan the queries of a file, and lay what was measured upon them."""
    network = Stages.of(Script.read(file).catalog()).lowered
    path = profile_path(file, options.profile)
    measured = read_measured(path)
    return Scenario.from_profiles(
        network,
        measured.of(tuple(network.operators), str(path)),
        _arrivals(network, measured, options, seed),
        processors=Pool(options.processors or 1),
        seed=seed,
    )


def profile_path(file: Path, given: Path | None) -> Path:
    """The profile that was asked for, or else the one beside the script."""
    if given is not None:
        return given / FILE_NAME if given.is_dir() else given
    path = beside(file)
    if not path.is_file():
        raise SetupError(
            f"{file} says nothing about costs; measure them with: headgate profile {file}, or add --profile "
            "with a file or the checkpoint of an earlier run"
        )
    return path


def read_measured(path: Path) -> Measured:
    """A profile from a file."""
    try:
        return Measured.from_json(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise SetupError(f"no such file: {path}; run --checkpoint writes it when it ends") from None
    except (OSError, UnicodeDecodeError):
        raise SetupError(f"{path} cannot be read; name a file of profiles in JSON") from None


def _arrivals(network: Network, measured: Measured, options: MeasuredOptions, seed: int) -> dict[str, Any]:
    asked = {s: rate_of(value, s) for s, value in by_stream("--rate", options.rates, network).items()}
    rates = {**measured.tuples_per_s, **asked}
    traces = by_stream("--trace", options.traces, network)
    arrivals = {}
    process: TimesProcess
    for stream in network.streams:
        # streams differ: each has a seed of its own
        own_seed = key_of(seed, "arrivals", stream) >> 1
        if stream in traces:
            process = process_named("trace", {"file": traces[stream]})
        elif rates.get(stream) == 0:
            process = Listed(())
        elif stream in rates:
            process = process_named("poisson", {"rate": rates[stream], "until": options.for_s or 10.0})
        else:
            raise SetupError(f"no rate of stream {stream} is known; add --rate {stream}=1000")
        arrivals[stream] = process.times_s(own_seed)
    return arrivals


def by_stream(option: str, given: Sequence[str], network: Network) -> Mapping[str, str]:
    """The values of an option that takes STREAM=VALUE."""
    found = {}
    for text in given:
        stream, equals, value = text.partition("=")
        if not equals or not value:
            raise SetupError(f"{option} {text} names no stream; write {option} STREAM=VALUE")
        if stream not in network.streams:
            known = known_names(list(network.streams))
            raise SetupError(f"{option}: no query reads a stream {stream}; known: {known}")
        found[stream] = value
    return found


def rate_of(value: str, stream: str) -> float:
    """A rate as written: tuples a second."""
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise SetupError(f"--rate {stream}={value} is no rate; write tuples a second, as in {stream}=1000")
    return rate
