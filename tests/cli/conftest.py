from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting Spark is an error."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("headgate.cli.script.jvm.start_early", lambda *given: None)
    monkeypatch.setattr("headgate.cli.script._start_session", lambda *given: None)
    monkeypatch.setattr("headgate.cli.execution.Session", refuse)
    monkeypatch.setattr("headgate.session.session.Session", refuse)
