"""Rates that streams declare: what their options promise, whatever a machine can take of it."""

from __future__ import annotations

from headgate.model.network import StreamDefinition


def declared_rates(stream: StreamDefinition) -> tuple[float, ...]:
    """Tuples per second by the options of a stream, one for each phase; empty if they do not say."""
    # take a moment to import, and most streams declare no rate
    from headgate.workload.nexmark_stream import NexmarkSettings
    from headgate.workload.packets import BurstSettings

    if stream.format == "rate":
        options = {name.lower(): value for name, value in stream.options}
        return (float(options.get("rowspersecond", 1)),)
    for kind in (BurstSettings, NexmarkSettings):
        if stream.format == kind.format:
            settings = kind.parse(dict(stream.options))
            # as fast as it is read: by its own time
            speed = settings.speed or 1.0
            return tuple(rate * speed for rate in settings.tuples_per_second)
    return ()


def declared_rate(stream: StreamDefinition) -> float | None:
    """The one rate that a stream declares; None if it declares none, or one that changes."""
    rates = declared_rates(stream)
    return rates[0] if len(rates) == 1 else None
