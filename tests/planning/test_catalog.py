from __future__ import annotations

import pytest
from tests.planning.support import catalog_of

from headgate.cql.parser import parse
from headgate.errors import QueryError
from headgate.model.network import Column, RelationDefinition, Schema, StreamDefinition
from headgate.planning.catalog import Catalog, SourceDefinition
from headgate.planning.queries import bind

SCHEMA = Schema((Column("t", "TIMESTAMP"), Column("a", "INT")))


def declare(catalog: Catalog, text: str) -> Catalog:
    for statement in parse(text, "case"):
        catalog.declare(statement)
    return catalog


def test_unknown_columns_are_asked_for_once() -> None:
    asked = []

    def resolver(definition: SourceDefinition) -> Schema:
        asked.append(definition.name)
        return SCHEMA

    catalog = declare(Catalog(resolver), "CREATE STREAM s FROM kafka; CREATE RELATION r FROM parquet")
    assert asked == []
    for _ in range(2):
        for name in ("S", "r"):
            definition = catalog.find(name)
            assert definition is not None
            assert definition.schema == SCHEMA
    assert asked == ["s", "r"]
    assert catalog.streams["s"].schema == SCHEMA


def test_columns_that_nobody_knows_are_refused_when_they_are_needed() -> None:
    catalog = declare(Catalog(), "CREATE STREAM s FROM kafka; CREATE QUERY q AS SELECT a FROM s")
    with pytest.raises(
        QueryError, match=r"^case:1:15: the columns of s are not known; write s \(column TYPE"
    ):
        bind(catalog.queries["q"], catalog)


@pytest.mark.parametrize(
    ("timestamp", "reason"),
    [
        ("x", "timestamp x is not a column of s; columns: t, b"),
        ("b", "timestamp column b is STRING; declare it"),
    ],
)
def test_the_timestamp_is_checked_when_columns_become_known(timestamp: str, reason: str) -> None:
    schema = Schema((Column("t", "TIMESTAMP"), Column("b", "STRING")))
    text = f"CREATE STREAM s FROM kafka OPTIONS (timestamp '{timestamp}')"
    catalog = declare(Catalog(lambda _: schema), text)
    with pytest.raises(QueryError, match=reason):
        catalog.find("s")


def test_formats_with_an_event_time_of_their_own_need_no_timestamp() -> None:
    catalog = Catalog(event_times={"kafka": "t"})
    declare(
        catalog,
        "CREATE STREAM own (a INT, T TIMESTAMP) FROM Kafka OPTIONS (watermark '2 s');"
        "CREATE STREAM named (a INT, t TIMESTAMP) FROM kafka OPTIONS (timestamp 'a');"
        "CREATE STREAM other (t TIMESTAMP) FROM rate",
    )
    assert [stream.timestamp for stream in catalog.streams.values()] == ["t", "a", None]
    assert catalog.streams["own"].watermark_delay_us == 2_000_000
    with pytest.raises(QueryError, match=r"^case:1:15: timestamp t is not a column of s; columns: a$"):
        declare(catalog, "CREATE STREAM s (a INT) FROM kafka")


def test_sources_can_be_handed_in_and_are_checked_alike() -> None:
    catalog = Catalog()
    catalog.add_stream(StreamDefinition("s", "memory", SCHEMA, timestamp="t"))
    catalog.add_relation(RelationDefinition("r", "memory", SCHEMA))
    with pytest.raises(QueryError, match="stream s already exists"):
        catalog.add_relation(RelationDefinition("S", "memory", SCHEMA))
    with pytest.raises(QueryError, match="timestamp x is not a column of s2; columns: t, a"):
        catalog.add_stream(StreamDefinition("s2", "memory", SCHEMA, timestamp="x"))
    assert [*catalog.streams, *catalog.relations] == ["s", "r"]


def test_streams_keep_the_order_of_their_declaration() -> None:
    catalog = catalog_of()
    assert list(catalog.streams) == ["packets", "flows", "clicks"]


def test_unknown_formats_are_refused_where_formats_are_known() -> None:
    catalog = Catalog(known_sources=("kafka", "rate"))
    declare(catalog, "CREATE STREAM s (a INT) FROM KAFKA")
    assert catalog.streams["s"].format == "kafka"
    with pytest.raises(QueryError, match="unknown source format kafak; known: kafka, rate"):
        declare(catalog, "CREATE STREAM t (a INT) FROM kafak")


def test_a_refused_stream_leaves_its_name_free() -> None:
    catalog = Catalog()
    with pytest.raises(QueryError):
        declare(catalog, "CREATE STREAM s (a INT) FROM kafka OPTIONS (timestamp 'b')")
    declare(catalog, "CREATE STREAM s (a INT) FROM kafka")
    assert list(catalog.streams) == ["s"]
