"""Random queries that are valid, for properties of planning."""

from __future__ import annotations

from hypothesis import strategies as st

WINDOWS = ("[ROWS 3]", "[RANGE 5 SECONDS]", "[RANGE 5 s SLIDE 1 s]", "[PARTITION BY src ROWS 2]", "[NOW]")
NUMBERS = {"packets": ("bytes", "info.port"), "flows": ("flow",), "hosts": ("length(ip)",), "owners": ("8",)}
TEXTS = {
    "packets": ("src", "DST"),
    "flows": ("src",),
    "hosts": ("ip", "owner"),
    "owners": ("Owner", "country"),
}
KEYS = (
    "p.bytes",
    "bytes % 3",
    "p.bytes + info.port",
    "lower(src)",
    "dst",
    "bytes > 3",
    "-bytes",
    "p.info.port",
)
CALLS = (
    "COUNT(*)",
    "SUM(bytes)",
    "min(p.bytes % 3)",
    "MAX(src)",
    "COUNT(DISTINCT dst)",
    "count( info.port )",
)

Sources = list[tuple[str, str]]


def _column(source: tuple[str, str], columns: dict[str, tuple[str, ...]], index: int) -> str:
    name, alias = source
    column = columns[name][index % len(columns[name])]
    if column.startswith("length("):
        return column.replace("(", f"({alias}.")
    return column if column.isdecimal() else f"{alias}.{column}"


@st.composite
def sources(draw: st.DrawFn) -> Sources:
    streams = draw(st.lists(st.sampled_from(("packets", "flows")), min_size=1, max_size=3))
    relations = draw(st.lists(st.sampled_from(("hosts", "owners")), max_size=2))
    names = draw(st.permutations([*streams, *relations]))
    return [(name, f"t{index}") for index, name in enumerate(names)]


@st.composite
def conditions(draw: st.DrawFn, tables: Sources) -> str:
    left, right = draw(st.sampled_from(tables)), draw(st.sampled_from(tables))
    index = draw(st.integers(0, 3))
    a, b = _column(left, NUMBERS, index), _column(right, NUMBERS, index + 1)
    number = draw(st.integers(0, 9))
    shapes = (
        f"{_column(left, TEXTS, index)} = {_column(right, TEXTS, index + 1)}",
        f"{a} > {number}",
        f"{a} < {b}",
        f"({a} = {number} OR {b} <> 3)",
        f"{number} < 5",
        f"{a} BETWEEN {number} AND {b}",
        f"CASE WHEN {a} > 2 OR {b} > 2 THEN {b} > 1 ELSE {a} < 5 END",
    )
    return draw(st.sampled_from(shapes))


@st.composite
def plain_selects(draw: st.DrawFn) -> str:
    """A SELECT without aggregates."""
    tables = draw(sources())
    columns = st.sampled_from([_column(t, c, i) for t in tables for c in (NUMBERS, TEXTS) for i in (0, 1)])
    items = [f"{column} AS c{i}" for i, column in enumerate(draw(st.lists(columns, min_size=1, max_size=4)))]
    several = sum(name in ("packets", "flows") for name, _ in tables) > 1
    listed = [f"{name} {draw(_windows(name)) if several else ''} AS {alias}" for name, alias in tables]
    where = draw(st.lists(conditions(tables), max_size=4))
    # an OR as the only condition needs no brackets of its own
    tail = f" WHERE {' AND '.join(where)}" if where else ""
    return f"SELECT {', '.join(items)} FROM {', '.join(listed)}{tail}"


def _windows(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(WINDOWS if name in ("packets", "flows") else ("",))


@st.composite
def aggregate_selects(draw: st.DrawFn) -> str:
    """A SELECT with GROUP BY whose items may or may not be made of keys."""
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    operands = st.sampled_from([*keys, *CALLS, "2"])
    items = [f"{draw(_compositions(operands))} AS c{i}" for i in range(draw(st.integers(1, 3)))]
    having = draw(st.sampled_from(("", " HAVING COUNT(*) > 1", " HAVING SUM(bytes) > 3 OR count(*) = 1")))
    where = draw(st.sampled_from(("", " WHERE bytes > 2", " WHERE src = ip AND bytes < 8")))
    relation = ", hosts" if "ip" in where else ""
    tail = f"{where} GROUP BY {', '.join(keys)}{having}"
    return f"SELECT {', '.join(items)} FROM packets [ROWS 9] AS p{relation}{tail}"


def _compositions(operands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    shapes = (
        "{0}",
        "{0}",
        "({0})",
        "{0} + {1}",
        "{0} * {1}",
        "{0} - {1}",
        "- {0}",
        "coalesce({0}, {0})",
        "{0} IS NULL",
    )
    return st.builds(lambda shape, a, b: shape.format(a, b), st.sampled_from(shapes), operands, operands)
