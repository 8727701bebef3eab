"""What a strategy is."""

from __future__ import annotations

from typing import Protocol

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn


class Strategy(Protocol):
    """Decides which tuples move next. No I/O, no clock, no randomness of its own.

    ``choose`` sees the whole system each time, so priorities may be static, dynamic or by deadline.
    """

    name: str

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Learn the network, and again whenever profiles change."""

    def choose(self, view: SystemView) -> Turn | None:
        """The next turn, or None when nothing is ready."""
