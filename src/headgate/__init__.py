"""Headgate: many continuous SQL queries over bursty streams on Spark, inside a memory budget.

    import headgate

    with headgate.Session() as session:
        session.execute("CREATE STREAM ...; CREATE QUERY q AS SELECT ...")
        run = session.start(until_done=True)
        run.watch()
        print(run.status(), run.arrow("q"))

``Session`` declares, plans and starts queries; ``Run`` inspects, changes and stops them; ``RunStatus`` is
what a run has done so far, ``Measured`` what an earlier run or a profile has measured. Whatever a user can
mend is a ``HeadgateError``, whose text is one line. From a shell, the command ``headgate`` does the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.errors import (
    DamagedStateError,
    HeadgateError,
    InternalError,
    OverloadError,
    QueryError,
    SetupError,
    SparkError,
    StalledError,
    UserCodeError,
)

if TYPE_CHECKING:
    from headgate.control.admission import Refused
    from headgate.model.status import RunStatus
    from headgate.session.handle import Run
    from headgate.session.session import Session
    from headgate.statistics.profile_file import Measured

__all__ = [
    "DamagedStateError",
    "HeadgateError",
    "InternalError",
    "Measured",
    "OverloadError",
    "QueryError",
    "Refused",
    "Run",
    "RunStatus",
    "Session",
    "SetupError",
    "SparkError",
    "StalledError",
    "UserCodeError",
    "__version__",
]
__version__ = "0.1.0"
_MODULES = {
    "Measured": "headgate.statistics.profile_file",
    "Refused": "headgate.control.admission",
    "Run": "headgate.session.handle",
    "RunStatus": "headgate.model.status",
    "Session": "headgate.session.session",
}


def __getattr__(name: str) -> Any:
    # Spark's Python workers import the package for a source of ours: they need no planner
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
