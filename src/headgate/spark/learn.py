"""Learning: what a tick tells about the operators it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.model.network import Network
from headgate.model.profile import Profile, Profiles

# the first ticks of a JVM tell about its compiler
_COLD_TICKS = 2
_MEMORY = 0.8
_LEAST_SECONDS = 1e-8
# the time of a job over fewer tuples tells about Spark, not about the tuples
_TELLING_ROWS = 5_000


@dataclass(frozen=True)
class Measured:
    """One job: the operators whose tuples it carried, and how long it took."""

    operators: tuple[str, ...]
    seconds: float


@dataclass
class _Tally:
    """Work seen of late: older ticks fade."""

    seconds: float = 0.0
    rows: float = 0.0
    rows_out: float = 0.0
    rows_in_of_out: float = 0.0

    def fade(self) -> None:
        self.seconds *= _MEMORY
        self.rows *= _MEMORY
        self.rows_out *= _MEMORY
        self.rows_in_of_out *= _MEMORY


class Learner:
    """Profiles, from sums over the latest ticks: a tick counts by how much it did.

    A job costs something before its first tuple. The quickest job so far tells how much; only what
    exceeds it is laid on the tuples, or a tick of one tuple would make tuples look expensive.
    """

    def __init__(self, network: Network) -> None:
        self._profiles: dict[str, Profile] = {name: Profile() for name in network.operators}
        self._tallies = {name: _Tally() for name in network.operators}
        self._job_floor_s = float("inf")
        self._ticks = 0

    @property
    def profiles(self) -> Profiles:
        """What is known now."""
        return dict(self._profiles)

    def learn(
        self,
        jobs: list[Measured],
        rows_in: Mapping[str, float],
        rows_out: Mapping[str, float],
        widths: Mapping[str, float],
    ) -> bool:
        """Take in a tick; whether anything is known better now.

        A fused job has one time for several operators: it is shared out by what they were expected
        to cost, so that ticks cut in different places sharpen each operator's own figure.
        """
        self._ticks += 1
        if self._ticks <= _COLD_TICKS or not jobs:
            return False
        self._job_floor_s = min([self._job_floor_s, *[job.seconds for job in jobs]])
        seconds = self._shared_out(jobs, rows_in)
        changed = False
        for name, rows in rows_in.items():
            if rows > 0 and name in seconds:
                self._take_in(name, rows, seconds[name], rows_out.get(name), widths.get(name))
                changed = True
        return changed

    def _shared_out(self, jobs: list[Measured], rows_in: Mapping[str, float]) -> dict[str, float]:
        seconds: dict[str, float] = {}
        for job in jobs:
            expected = {n: rows_in.get(n, 0.0) * self._profiles[n].seconds_per_tuple for n in job.operators}
            total = sum(expected.values())
            for name, share in expected.items():
                own = (job.seconds - self._job_floor_s) * share / total if total > 0 else 0.0
                seconds[name] = seconds.get(name, 0.0) + own
        return seconds

    def _take_in(
        self, name: str, rows: float, seconds: float, rows_out: float | None, width: float | None
    ) -> None:
        tally, old = self._tallies[name], self._profiles[name]
        tally.fade()
        tally.seconds += seconds
        tally.rows += rows
        if rows_out is not None:
            tally.rows_out += rows_out
            tally.rows_in_of_out += rows
        selectivity = tally.rows_out / tally.rows_in_of_out if tally.rows_in_of_out else old.selectivity
        seconds_per_tuple = old.seconds_per_tuple
        if tally.rows >= _TELLING_ROWS:
            seconds_per_tuple = max(_LEAST_SECONDS, tally.seconds / tally.rows)
        self._profiles[name] = Profile(
            seconds_per_tuple=seconds_per_tuple,
            selectivity=selectivity,
            bytes_per_tuple=old.bytes_per_tuple if width is None else width,
            samples=old.samples + 1,
        )
