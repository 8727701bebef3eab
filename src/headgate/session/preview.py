"""A preview of statements: the plans of their queries, and whether all would keep their bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headgate.control.admission import bounded_queries, marks_of
from headgate.errors import HeadgateError
from headgate.formats.plain_json import finite
from headgate.planning.catalog import Catalog
from headgate.planning.explain import Explanation, explain_stages
from headgate.planning.lower import Stages
from headgate.planning.plan_tree import Json
from headgate.queueing.advice import Advice, QueryAdvice
from headgate.session.changing import expected_network
from headgate.session.handle import Run
from headgate.session.predicting import Conditions, predict
from headgate.statistics.completeness import Origin
from headgate.statistics.likeness import with_estimates
from headgate.statistics.profile_file import Measured


@dataclass(frozen=True)
class Preview:
    """What statements would come to. ``advice`` is None if it cannot be given, for the reason stated."""

    explanation: Explanation
    advice: Advice | None
    reason: str = ""
    marks: tuple[str, ...] = ()
    """What the advice rests on without a measurement."""

    @property
    def fits(self) -> bool | None:
        """Whether all queries would keep their bounds; None if that is not known."""
        return None if self.advice is None else self.advice.fits

    def to_json(self) -> Json:
        """The plans as text, and the advice by query."""
        queries = {} if self.advice is None else self.advice.queries
        found = self.reason if self.advice is None else repr(self.advice)[1:-1]
        return {
            "explain": str(self.explanation),
            "fits": self.fits,
            "advice": "; ".join([found, *self.marks]),
            "queries": {name: _advice_json(own) for name, own in queries.items()},
        }


def _advice_json(own: QueryAdvice) -> Mapping[str, object]:
    broken = [str(bound) for bound in own.broken]
    document: Mapping[str, object] = finite(
        {"fits": own.fits, "largest_factor": own.largest_factor, "broken": broken, "help": str(own.help)}
    )
    return document


def preview(
    catalog: Catalog,
    new: Collection[str],
    measured: Measured | None,
    conditions: Conditions,
    run: Run | None = None,
) -> Preview:
    """The plans of new queries, and advice on all queries of the catalog together, beside a run that is on.

    As in admission, operators that were not measured are estimated from like ones, and named.
    """
    stages = Stages.of(catalog)
    shown = Stages(
        tuple(plan for plan in stages.bound if plan.query.name in new),
        tuple(plan for plan in stages.optimized if plan.query.name in new),
        stages.unshared,
        stages.lowered,
    )
    explanation = explain_stages(shown, "optimize")
    if not catalog.queries:
        return Preview(explanation, None, "no query would run")
    if measured is None:
        return Preview(explanation, None, "nothing has been measured yet; advice comes with the first ticks")
    try:
        network = expected_network(run, stages)
        known, estimates = with_estimates(measured, network)
        advice = predict(network, known, {}, conditions, Origin(command="the run"))
        return Preview(explanation, advice, marks=marks_of(estimates, bounded_queries(network)))
    except (HeadgateError, ArithmeticError) as error:
        return Preview(explanation, None, str(error))
