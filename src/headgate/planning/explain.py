"""The plans of all queries as text, JSON or HTML, after each stage or after one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.formats.html import html_text
from headgate.planning.logical import LogicalPlan
from headgate.planning.lower import Stages, describe, describe_json
from headgate.planning.plan_tree import Json

STAGES = ("bind", "optimize", "lower")


@dataclass(frozen=True, repr=False)
class Explanation:
    """Plans that show themselves: as text where they are printed, as a document in ``to_json``."""

    text: str
    document: Json

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return html_text(self.text)

    def to_json(self) -> Json:
        """The plans of each stage, as ``headgate explain --json`` prints them."""
        return self.document


def explain_stages(stages: Stages, after: str | None = None) -> Explanation:
    """The plans after one stage, or after each."""
    shown = {
        "bind": (_listed(stages.bound), [plan.to_json() for plan in stages.bound]),
        "optimize": (_listed(stages.optimized), [plan.to_json() for plan in stages.optimized]),
        "lower": (describe(stages.lowered), describe_json(stages.lowered)),
    }
    if after is not None:
        text, document = shown[after]
        return Explanation(text, {after: document})
    texts = (f"-- after {stage}\n{text}" for stage, (text, _) in shown.items())
    return Explanation("\n\n".join(texts), {stage: document for stage, (_, document) in shown.items()})


def _listed(plans: Iterable[LogicalPlan]) -> str:
    """All plans, and before them the derived streams that they read, each once."""
    texts = {part.query.name: part.own_text for plan in plans for part in (*plan.derived, plan)}
    return "\n\n".join(texts.values())


def explain_sql(texts: Mapping[str, str]) -> Explanation:
    """The Spark SQL of every query."""
    shown = (f"-- query {name}\n{text}" for name, text in texts.items())
    return Explanation("\n\n".join(shown), {"sql": dict(texts)})
