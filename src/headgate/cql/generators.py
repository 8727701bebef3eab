"""Functions that give several rows for one tuple, in FROM and in the select list.

``LATERAL VIEW explode(a) t AS x``, ``CROSS JOIN UNNEST(a) AS t (x)`` and ``SELECT explode(a) AS x`` are one:
an item of FROM whose rows are computed from the tuples of those before it.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.cql.expressions import scalar_without_aggregates
from headgate.cql.syntax import FromItem, Generator, JoinKind, Name, Select
from headgate.cql.tokens import Token, one_line, span_of
from headgate.cql.windows import WindowReader
from headgate.errors import QueryError

# by the word in the text: the function of Spark, and whether a tuple without rows is kept, with NULLs
_GENERATORS = {
    "UNNEST": ("unnest", False),
    **{
        f"{name.upper()}{suffix}": (name, bool(suffix))
        for name in ("explode", "posexplode", "inline")
        for suffix in ("", "_OUTER")
    },
}
_KNOWN = "explode(x), posexplode(x), inline(x), the same with _outer, or UNNEST(x)"


class GeneratorReader(WindowReader):
    """Reads calls that give several rows."""

    def at_clause(self) -> bool:
        """Whether a clause begins here, rather than a part of an expression."""
        raise NotImplementedError

    def expression(self, what: str) -> list[Token]:
        """The tokens of an expression, up to a comma, a closing bracket or the next clause."""
        raise NotImplementedError

    def at_generator(self) -> bool:
        return self.word() in _GENERATORS and self.at(self.word(), "(")

    def generator(self) -> Generator:
        """A call, without what its columns are named."""
        called = self.take()
        function, is_outer = _GENERATORS[called.word]
        self.expect("(")
        arguments = self.several(lambda: self.expression(f"an array or a map in {function}(...)"))
        self.expect(")", f" after the argument of {function}")
        if len(arguments) > 1:
            span = span_of([token for argument in arguments for token in argument])
            raise QueryError(f"{function} takes one array or map, not {len(arguments)}", span)
        argument = scalar_without_aggregates(arguments[0], function)
        return Generator(function, argument, self.since(called.span), is_outer=is_outer)

    def lateral_view(self) -> FromItem:
        """``[OUTER] explode(x) [t] [AS a, b]`` behind LATERAL VIEW."""
        is_outer = self.accept("OUTER")
        self._check_generator("LATERAL VIEW")
        found = self.generator()
        alias = self.name("the name of the view") if self._at_free_name() else None
        columns = self.several(lambda: self.name("a column")) if self.accept("AS") else ()
        return _source(replace(found, columns=columns, is_outer=found.is_outer or is_outer), alias)

    def generated_source(self) -> FromItem:
        """``UNNEST(x) [AS] t (a, b)`` behind a comma or JOIN, with or without LATERAL before it."""
        if self.accept("LATERAL"):
            self._check_generator("LATERAL")
        found = self.generator()
        if self.at("WITH", "ORDINALITY"):
            hint = "write LATERAL VIEW posexplode(x) t AS place, value, which counts from 0"
            raise self.fail(f"WITH ORDINALITY is not supported; {hint}")
        alias = self.name("an alias after AS") if self.accept("AS") or self._at_free_name() else None
        if self.accept("("):
            columns = self.several(lambda: self.name("a column"))
            self.expect(")", " or ',' after the column")
            found = replace(found, columns=columns)
        return _source(found, alias)

    def joined_by(self, item: FromItem, join: JoinKind) -> FromItem:
        """An item of generated rows behind JOIN: there is no condition, as a tuple is joined with its own."""
        assert item.generator is not None
        if join not in (JoinKind.INNER, JoinKind.LEFT):
            message = f"{join.value} is not for rows that a tuple has itself; write CROSS JOIN"
            raise QueryError(f"{message}, or LEFT JOIN to keep tuples without", item.source.span)
        if self.accept("ON"):
            condition = self.expression("TRUE after ON")
            if [token.word for token in condition] != ["TRUE"]:
                message = "a tuple is joined with all rows of its own; write ON TRUE, and conditions in WHERE"
                raise QueryError(message, span_of(condition))
        is_outer = item.generator.is_outer or join is JoinKind.LEFT
        return replace(item, generator=replace(item.generator, is_outer=is_outer))

    def _check_generator(self, clause: str) -> None:
        if not self.at_generator():
            raise self.expected(f"a function that gives rows after {clause}: {_KNOWN}")

    def _at_free_name(self) -> bool:
        token = self.current
        return token is not None and token.is_name and not self.at_clause()


def _source(generator: Generator, alias: Name | None) -> FromItem:
    name = Name(generator.function, generator.span)
    return FromItem(name, None, alias or name, generator=generator)


def columns_of(generator: Generator, written: tuple[Name, ...]) -> tuple[Name, ...]:
    """What the columns of a select item are called."""
    if written:
        return written
    if generator.function == "inline":
        message = "inline gives a column for each field; name them"
        raise QueryError(f"{message}, as in inline(x) AS (a, b)", generator.span)
    names = ("pos", "col") if generator.function == "posexplode" else ("col",)
    return tuple(Name(name, generator.span) for name in names)


def check_without_groups(select: Select) -> None:
    """Reject rows in the select list of groups: what is grouped would not be clear."""
    generators = (one.generator for one in select.sources if one.generator is not None)
    found = next((one for one in generators if one.is_item), None)
    if found is not None and select.is_aggregate:
        message = f"{found.function} in SELECT gives rows of tuples, not of groups"
        hint = f"write FROM s [TUMBLE 10 SECONDS] LATERAL VIEW {one_line(found.span.excerpt)} t AS x"
        raise QueryError(f"{message}; {hint} GROUP BY x", found.span)
