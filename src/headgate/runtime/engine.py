"""What the loop asks of an engine."""

from __future__ import annotations

from typing import Protocol

from headgate.model.event import Event
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn


class Engine(Protocol):
    """Carries out turns: in virtual time, or on Spark."""

    @property
    def network(self) -> Network:
        """The network that runs."""

    def profiles(self) -> Profiles:
        """What is known of each operator now."""

    def view(self) -> SystemView:
        """The queues at this instant."""

    def accepts_turn(self) -> bool:
        """Whether a processor is free for another turn."""

    def start(self, turn: Turn) -> None:
        """Begin a turn; its end comes as an event."""

    def next_event(self) -> Event | None:
        """Wait for the next event; None when the run is over."""
