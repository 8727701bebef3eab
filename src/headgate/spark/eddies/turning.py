"""Where the tuples of a block go next: one expression of Spark draws it for all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.routing.blocks import bounds
from headgate.spark.columns import SIDE
from headgate.spark.eddies.task import DONE, NEXT, NUMBER
from headgate.spark.eddies.ways import Ways

Weights = Mapping[tuple[int, int], Mapping[str, float]]
"""Of the steps that may be next, by side and history."""

_CELLS = "$cells"
_CHANCE = "$chance"


def turned(tuples: DataFrame, ways: Ways, weights: Weights) -> DataFrame:
    """The tuples of a join with the step that each is on its way to; null if it is through.

    Where the stretch of [0, 1) of every step ends stands in one array, which Spark hands to its generated
    code by reference: other weights do not make it compile the plan anew.
    """
    steps = len(ways.names)
    chance = F.expr(f"pmod(xxhash64(`{NUMBER}`, `{DONE}`), 4294967296L) / 4294967296D")
    row = f"((`{SIDE}` * {1 << steps} + `{DONE}`) * {steps})"
    passed = " + ".join(
        f"IF(`{_CELLS}`[CAST({row} + {step} AS INT)] <= `{_CHANCE}`, 1, 0)" for step in range(steps)
    )
    drawn = tuples.withColumn(_CELLS, F.expr(f"from_json('{_cells(ways, weights)}', 'array<double>')"))
    aimed = drawn.withColumn(_CHANCE, chance).withColumn(
        NEXT, F.expr(f"IF(`{DONE}` = {ways.full}L, NULL, {passed})").cast("int")
    )
    return aimed.drop(_CELLS, _CHANCE)


def _cells(ways: Ways, weights: Weights) -> str:
    cells = [1.0] * (len(ways.plans) * len(ways.names) << len(ways.names))
    for (side, done), chosen in weights.items():
        ends = bounds({name: chosen[name] for name in ways.names if name in chosen})
        end, first = 0.0, ((side << len(ways.names)) + done) * len(ways.names)
        for step, name in enumerate(ways.names):
            # a step that cannot be next begins and ends where the one before it ends
            end = ends[name][1] if chosen.get(name) else end
            cells[first + step] = round(end, 6)
    return json.dumps(cells)
