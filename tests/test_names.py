"""A name means one thing: files and classes have names of their own."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "headgate"
# a clause, the node of a logical plan that it becomes, and the operator that computes it may have one name
STAGES = ("cql/syntax.py", "planning/logical.py", "model/operator.py", "model/joins.py")


def test_no_two_files_have_one_name() -> None:
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            places[path.name].append(str(path.relative_to(SOURCE)))
    assert [found for found in places.values() if len(found) > 1] == []


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        place = str(path.relative_to(SOURCE))
        for name in re.findall(r"^class ([^_\W]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].append("a stage of a query" if place in STAGES else place)
    assert len(places) > 500
    several = {name: found for name, found in places.items() if len(set(found)) > 1}
    assert several == {}
