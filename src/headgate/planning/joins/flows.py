"""Output and cost of plans behind drop boxes, and the boxes that make a plan fit with the most output.

Where all windows are of rows, output and cost are linear in the shares kept: see ``linear``. A time window
holds less of a stream that is shed: see ``timed``.
"""

from __future__ import annotations

from typing import Protocol

from headgate.planning.joins.figures import Figures, Floats
from headgate.planning.joins.linear import LinearFlows
from headgate.planning.joins.plans import Plans, terms_of
from headgate.planning.joins.shed import Shed
from headgate.planning.joins.timed import TimedFlows


class Flows(Protocol):
    """Plans, ready to be asked what they do; ``keep[plan, box]`` are shares of streams."""

    def cost_per_s(self, keep: Floats) -> Floats:
        """Processors kept busy."""

    def joined_per_s(self, keep: Floats) -> Floats:
        """Tuples of the whole join a second."""

    def keep_within(self, most: Floats, capacity: Floats) -> Floats:
        """The shares with the most output, none above ``most``, whose cost is within the capacity.

        A plan that fits keeps ``most`` of everything.
        """

    def roughly_within(self, most: Floats, capacity: Floats) -> Shed:
        """The same, as well as can be had in no time for thousands of plans."""

    def refined(self, plan: int, keep: Floats, capacity: float) -> Floats:
        """The shares of one plan, improved where ``keep_within`` gives what need not be the best."""


def flows_of(plans: Plans, figures: Figures) -> Flows:
    """What becomes of tuples in each plan."""
    terms = terms_of(plans, figures)
    return TimedFlows.of(terms, figures) if figures.is_timed.any() else LinearFlows.of(terms, figures)


def objective(flows: Flows, keep: Floats) -> Floats:
    """Output for its cost, R(p)."""
    return Shed(keep, flows.cost_per_s(keep), flows.joined_per_s(keep)).objective
