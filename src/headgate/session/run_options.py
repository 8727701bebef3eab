"""Options of runs: given on the command line, by SET, or else their defaults.

Functions import the planner when they are called: a command checks its options before Spark starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headgate.cql.measure import LARGEST, parse_bytes, parse_duration_us
from headgate.cql.statement import SetOption
from headgate.cql.tokens import one_line
from headgate.errors import HeadgateError, QueryError, SetupError, Span, unknown_name
from headgate.model.join_order import JoinOrder
from headgate.scheduling import strategy_named
from headgate.session.placed import router_from

if TYPE_CHECKING:
    from headgate.control.overrides import Overrides
    from headgate.model.network import Network
    from headgate.planning.listing import Listing


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{one_line(text)}' is neither true nor false; write one of them")
    return text.lower() == "true"


def _seconds(text: str) -> float:
    return parse_duration_us(text) / 1e6


def _strategy(text: str) -> str:
    strategy_named(text)
    return text


def _routing(text: str) -> str:
    router_from(text)
    return text


def _folder(text: str) -> str:
    if not text.strip():
        raise ValueError("the folder has no name; write one, such as state/")
    return text


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        raise ValueError(f"'{one_line(text)}' is not a whole number; write one, such as 7") from None
    if abs(seed) > LARGEST:
        raise ValueError(f"{one_line(text)} is out of range; write a number of at most 18 digits")
    return seed


def _pairs(text: str, example: str) -> dict[str, str]:
    """``name=value`` between commas; names are as written."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise ValueError(f"'{one_line(part)}' is not a name, '=' and a value; write {example}")
        if name.lower() in {known.lower() for known in pairs}:
            raise ValueError(f"{name} is there twice; keep one of them")
        pairs[name] = value
    return pairs


def _ratios(text: str) -> dict[str, float]:
    ratios: dict[str, float] = {}
    for stream, written in _pairs(text, "packets=0.5").items():
        try:
            ratios[stream] = float(written)
        except ValueError:
            raise ValueError(f"'{one_line(written)}' is not a number; write {stream}=0.5") from None
        if not 0 <= ratios[stream] <= 1:
            raise ValueError(f"{stream}={one_line(written)} is out of range; write a share from 0 to 1")
    return ratios


def _orders(text: str) -> dict[str, JoinOrder]:
    orders: dict[str, JoinOrder] = {}
    for query, aliases in _pairs(text, "matched=p f").items():
        try:
            orders[query] = JoinOrder.read(aliases)
        except ValueError as error:
            raise ValueError(f"{query}={one_line(aliases)}: {error}; write {query}=a b (c d)") from None
    return orders


@dataclass(frozen=True)
class _Option:
    """How the text of an option is read, and its value if it is not given."""

    read: Callable[[str], Any]
    default: Any = None
    is_positive: bool = False

    def value(self, text: str, where: str) -> Any:
        """The value of a text; errors name the place that it is from."""
        try:
            found = self.read(text)
        except ValueError as error:
            raise SetupError(f"{where}: {error}") from None
        if self.is_positive and found <= 0:
            raise SetupError(f"{where} must be more than 0")
        return found


_OPTIONS: Mapping[str, _Option] = {
    "strategy": _Option(_strategy, "fifo"),
    "tick_budget": _Option(_seconds, is_positive=True),
    "memory": _Option(parse_bytes, is_positive=True),
    "checkpoint": _Option(_folder),
    "until_done": _Option(_truth, False),
    "for": _Option(_seconds, is_positive=True),
    "routing": _Option(_routing, "optimal"),
    "balance_pools": _Option(_truth, False),
    "keep": _Option(_ratios),
    "seed": _Option(_seed),
    "orders": _Option(_orders),
}
# a run ends in one of these ways
_ALTERNATIVES = {"until_done": "for", "for": "until_done"}
_IN_QUERIES = ("latency", "overload", "quality", "utility", "on_error")
_ELSEWHERE = {
    **{name: f"is a setting of queries; write CREATE QUERY name WITH ({name} = ...)" for name in _IN_QUERIES},
    "master": "is fixed when Spark starts; pass --master to headgate run, or master to Session",
    "force": "is not for files; pass --force to headgate run, or force to Session.execute",
}


@dataclass(frozen=True)
class _Given:
    """The value of an option, with its text and, if SET gave it, the place of that."""

    text: str
    value: Any
    span: Span | None = None


class RunOptions:
    """The options of the runs of a session; those of the command line go before those of SET."""

    def __init__(self, command_line: Mapping[str, str | bool | None] = MappingProxyType({})) -> None:
        """Options that are None are not given; a SetupError names the one that is wrong."""
        self._command_line: dict[str, _Given] = {}
        self.given: dict[str, _Given] = {}
        """By SET."""
        for name, written in command_line.items():
            if written is not None:
                text = str(written).lower() if isinstance(written, bool) else written
                self._command_line[name] = _Given(text, _OPTIONS[name].value(text, _flag(name)))
        if all(self._command_line.get(name, _NOTHING).value for name in _ALTERNATIVES):
            raise SetupError("--until-done and --for exclude each other; keep one of them")

    def renewed(self) -> RunOptions:
        """The same options of the command line, and none of SET."""
        fresh = RunOptions()
        fresh._command_line = self._command_line
        return fresh

    def set(self, statement: SetOption) -> None:
        name = _known(statement)
        if statement.value is None:
            self.given.pop(name, None)
            return
        try:
            value = _OPTIONS[name].value(statement.value, name)
        except HeadgateError as error:
            raise QueryError(_message(error), statement.span) from None
        other = _ALTERNATIVES.get(name, "")
        if value and self.given.get(other, _NOTHING).value:
            raise QueryError(f"{name} and {other} exclude each other; keep one of them", statement.name.span)
        self.given[name] = _Given(statement.value, value, statement.span)

    def value(self, name: str) -> Any:
        found = self._found(name)
        return _OPTIONS[name].default if found is None else found.value

    def _found(self, name: str) -> _Given | None:
        """What has been given; another way to end the run, on the command line, makes it void."""
        if name not in self._command_line:
            other = self._command_line.get(_ALTERNATIVES.get(name, ""), _NOTHING)
            return None if other.value else self.given.get(name)
        return self._command_line[name]

    def chosen(self, name: str, argument: Any) -> Any:
        """An argument of the library, or the option of its name if it is None."""
        return self.value(name) if argument is None else argument

    def overrides(
        self,
        network: Network,
        keep: Mapping[str, float] | None = None,
        seed: int | None = None,
        orders: Mapping[str, JoinOrder] | None = None,
    ) -> Overrides:
        """Keep ratios, seed and join orders, which the network must allow; arguments go before options."""
        from headgate.control.overrides import Overrides

        drawn = self.chosen("seed", seed)
        with self._errors_placed("keep", keep):
            ratios = _spelled(self.value("keep"), network.streams) if keep is None else keep
            found = Overrides.checked(network, ratios, drawn, {})
        with self._errors_placed("orders", orders):
            by_query = _spelled(self.value("orders"), network.queries) if orders is None else orders
            return Overrides.checked(network, found.keep, drawn, by_query)

    @contextmanager
    def _errors_placed(self, name: str, argument: object) -> Iterator[None]:
        """Errors of an option name its place, unless an argument was given instead."""
        found = self._found(name) if argument is None else None
        try:
            yield
        except SetupError as error:
            if found is None:
                raise
            if found.span is None:
                raise SetupError(f"{_flag(name)}: {error}") from None
            raise QueryError(f"{name}: {error}", found.span) from None

    def listing(self) -> Listing:
        """The answer of SHOW SETTINGS."""
        from headgate.planning.listing import Listing

        return Listing("SHOW SETTINGS", ("setting", "value", "from"), tuple(map(self._row, _OPTIONS)))

    def _row(self, name: str) -> tuple[str, str | None, str]:
        found = self._found(name)
        if found is None:
            default = _OPTIONS[name].default
            return name, None if default is None else str(default).lower(), "default"
        return name, found.text, "command line" if found.span is None else "SET"


_NOTHING = _Given("", None)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _known(statement: SetOption) -> str:
    """The option that a statement names."""
    name = statement.name.text.lower()
    if name in _OPTIONS:
        return name
    if name in _ELSEWHERE:
        raise QueryError(f"{name} {_ELSEWHERE[name]}", statement.name.span)
    raise QueryError(unknown_name("setting", name, _OPTIONS), statement.name.span)


def _message(error: HeadgateError) -> str:
    """The text without its place, in one line, whatever a file of the user's has raised."""
    return " ".join((error.message if isinstance(error, QueryError) else str(error)).split())


def _spelled(given: Mapping[str, Any] | None, names: Iterable[str]) -> dict[str, Any]:
    """Values by name, as declared; a name that is not, as written."""
    declared = {name.lower(): name for name in names}
    return {declared.get(name.lower(), name): value for name, value in (given or {}).items()}
