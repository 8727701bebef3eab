"""Drop boxes on Spark: which rows of a stream are shed, by a hash over seed and row, or by utility."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headgate.model.network import Network
from headgate.model.operator_inputs import StreamInput
from headgate.model.productivity import PRODUCTIVITY
from headgate.model.shedding import BITS, KEEP, DropBox, Floor, TickSettings
from headgate.spark import sql
from headgate.spark.expected_matches import productivity
from headgate.spark.sources import BAD_ROW


def is_kept(columns: StructType, box: DropBox, anchor: str) -> str:
    """Condition for the rows that the box keeps; equal rows are kept or dropped together."""
    own = [
        sql.name(field.name)
        for field in columns.fields
        if not sql.is_system(field.name) and field.name != BAD_ROW and _has_hash(field.dataType)
    ]
    hashed = f"xxhash64({', '.join([f'{box.seed}L', *own])})"
    passes = f"({hashed} & {2**BITS - 1}L) < {sql.Bound(box.threshold).at(anchor)}"
    if box.floor is None:
        return f"({passes})"
    utility, above = utility_of(box.floor.text), sql.Bound(float(box.floor.above)).at(anchor)
    return f"coalesce({utility} > {above} OR ({utility} = {above} AND {passes}), FALSE)"


def _has_hash(kind: DataType) -> bool:
    """Maps have no order, so Spark does not hash them."""
    if isinstance(kind, MapType):
        return False
    if isinstance(kind, ArrayType):
        return _has_hash(kind.elementType)
    if isinstance(kind, StructType):
        return all(_has_hash(field.dataType) for field in kind.fields)
    return kind.typeName() != "variant"


def utility_of(text: str) -> str:
    """The utility of a tuple, as an expression."""
    return f"CAST(({text}) AS DOUBLE)"


class Utilities:
    """What ranks the tuples of streams: an expression of the user's, or the matches that are expected."""

    def __init__(self, network: Network) -> None:
        self.texts = network.utilities()
        self._sides = network.productivity()

    def of_tick(self, settings: TickSettings) -> dict[str, str]:
        """The expressions by stream, as far as what they are made of is known."""
        found = {
            stream: productivity(self._sides[stream], settings.key_tables) if text == PRODUCTIVITY else text
            for stream, text in self.texts.items()
        }
        return {stream: text for stream, text in found.items() if text is not None}


def with_floor(box: DropBox, utility: str | None, quantiles: tuple[float, ...]) -> DropBox:
    """A box that sheds by utility once the distribution of utilities is known, and by hash until then."""
    if utility is None or not quantiles:
        return box
    return replace(box, floor=Floor.of(utility, box.keep, quantiles))


def blend_quantiles(old: tuple[float, ...], new: tuple[float, ...]) -> tuple[float, ...]:
    """Quantiles of utilities, halfway between the previous ones and those of this tick."""
    if not new or not old:
        return new or old
    return tuple((a + b) / 2 for a, b in zip(old, new, strict=True))


def keep_ratio(keep: float, anchor: str) -> str:
    """The probability with which each tuple was kept, in the resolution of the box itself."""
    return sql.Bound(round(keep * 2**BITS) / 2**BITS).at(anchor)


def streams_with_keep_ratio(network: Network) -> frozenset[str]:
    """The streams whose tuples carry the probability with which they were kept, for estimates."""
    return frozenset(
        source.stream
        for operator in network.operators.values()
        for source in operator.inputs
        if isinstance(source, StreamInput) and KEEP in source.columns
    )
