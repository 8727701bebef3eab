"""Eddies in virtual time: nodes, links and pages, messages of statistics, boxes that split and slide.

``run.simulate_eddy`` runs them; it is not imported here, since what it compiles takes a moment to load.
"""

from headgate.simulator.eddies.result import EddyResult
from headgate.simulator.eddies.setting import EddyRun, Links, LoadSharing

__all__ = ["EddyResult", "EddyRun", "Links", "LoadSharing"]
