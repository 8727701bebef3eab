"""Learning: what a tick tells about the operators it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.model.network import Network
from headgate.model.profile import Profile, Profiles

_WEIGHT = 0.3


@dataclass(frozen=True)
class Measured:
    """One job: the operators whose tuples it carried, and how long it took."""

    operators: tuple[str, ...]
    seconds: float


class Learner:
    """Profiles, moved towards what each tick shows."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._profiles: dict[str, Profile] = {name: Profile() for name in network.operators}

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
        seconds = dict.fromkeys(self._profiles, 0.0)
        for job in jobs:
            expected = {n: rows_in.get(n, 0.0) * self._profiles[n].seconds_per_tuple for n in job.operators}
            total = sum(expected.values())
            for name, share in expected.items():
                seconds[name] += job.seconds * share / total if total > 0 else 0.0
        changed = False
        for name, rows in rows_in.items():
            if rows < 1 or not seconds[name]:
                continue
            old = self._profiles[name]
            self._profiles[name] = old.blended(
                Profile(
                    seconds_per_tuple=seconds[name] / rows,
                    selectivity=rows_out[name] / rows if name in rows_out else old.selectivity,
                    bytes_per_tuple=widths.get(name, old.bytes_per_tuple),
                ),
                _WEIGHT,
            )
            changed = True
        return changed
