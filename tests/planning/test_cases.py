"""Every stage on case files: a title, a text, ``----``, and the tree or the error it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.planning.support import bound, catalog_of, parsed

from headgate.errors import QueryError
from headgate.planning.catalog import Catalog
from headgate.planning.lower import describe, lower
from headgate.planning.plan_statistics import Context, PredicateStatistics, WrittenStatistics, form_of
from headgate.planning.rules import RULES, optimize
from headgate.session.run_options import RunOptions
from headgate.session.statements import perform

FOLDER = Path(__file__).parent / "cases"
# selectivity and seconds per tuple of the predicates that cases order
COSTS = {
    "bytes > 1": (0.5, 1e-3),
    "src LIKE '%x%'": (0.1, 9e-3),
    "packets.info.port = 3": (0.9, 5e-5),
    "dst = 'all'": (1.0, 1e-3),
}
CONTEXT = Context(
    WrittenStatistics(predicates={form_of(text): PredicateStatistics(*cost) for text, cost in COSTS.items()})
)


class Case(NamedTuple):
    """One entry of a case file."""

    stage: str
    title: str
    text: str
    expected: str


def read_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.txt")):
        for entry in path.read_text(encoding="utf-8").split("==== ")[1:]:
            title, _, rest = entry.partition("\n")
            text, _, expected = rest.partition("\n----\n")
            yield Case(path.stem, title, text, expected.strip("\n"))


def declared(text: str) -> str:
    catalog = catalog_of(text, declarations="")
    return "\n".join(map(str, [*catalog.streams.values(), *catalog.relations.values(), *catalog.queries]))


def answered(text: str) -> str:
    """What SHOW and DESCRIBE give, each below its statement."""
    catalog, options = Catalog(), RunOptions()
    answers = [perform(statement, catalog, options) for statement in parsed(text, "case")]
    return "\n\n".join(f"{answer.statement}\n{answer}" for answer in answers if answer)


def lowered(text: str) -> str:
    catalog = catalog_of(text)
    return describe(lower([optimize(plan) for plan in bound(text, catalog)], catalog))


STAGES: Mapping[str, Callable[[str], str]] = {
    "answers": answered,
    "declare": declared,
    "bind": lambda text: "\n".join(map(str, bound(text))),
    "bind_errors": lambda text: "\n".join(map(str, bound(text))),
    "lower": lowered,
    **{
        rule.__name__: lambda text, rule=rule: "\n".join(str(rule(p, CONTEXT)) for p in bound(text))  # type: ignore[misc]
        for rule in RULES
    },
}

CASES = list(read_cases(FOLDER))


def outcome(case: Case) -> str:
    try:
        return STAGES[case.stage](case.text)
    except QueryError as error:
        return error.detailed()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.stage}: {case.title}")
def test_a_stage_gives_what_the_case_file_says(case: Case) -> None:
    assert outcome(case) == case.expected


def test_every_rule_and_stage_has_a_case_file() -> None:
    assert {case.stage for case in CASES} == set(STAGES)
