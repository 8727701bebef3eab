"""Which columns of a stream come from a record of Kafka, and which from its value."""

from __future__ import annotations

import pytest

from headgate.errors import SetupError
from headgate.model import kafka
from headgate.model.network import Column, Schema, StreamDefinition

SERVERS = (("servers", "a:1"), ("topic", "t"))


def stream(names: str, *options: tuple[str, str], timestamp: str | None = None) -> StreamDefinition:
    columns = tuple(Column(name, "INT") for name in names.split())
    return StreamDefinition(
        "s", "kafka", Schema(columns) if columns else None, (*SERVERS, *options), timestamp
    )


def parsed(given: StreamDefinition) -> list[str]:
    return [column.name for column in kafka.value_columns(given)]


def test_columns_named_as_metadata_come_from_the_record_unless_the_option_says_otherwise() -> None:
    json = ("format", "json")
    assert parsed(stream("n key partition offset timestamp", json)) == ["n", "timestamp"]
    assert parsed(stream("n key offset", json, ("metadata", "offset"))) == ["n", "key"]
    assert parsed(stream("n key", json, ("metadata", ""))) == ["n", "key"]
    assert parsed(stream("value Key timestamp")) == ["value"]


def test_options_reach_the_reader_the_parser_or_the_client() -> None:
    given = stream(
        "n headers",
        ("format", "csv"),
        ("sep", ";"),
        ("startingOffsets", "earliest"),
        ("kafka.security.protocol", "SSL"),
    )
    assert kafka.reader_options(given) == {
        "kafka.bootstrap.servers": "a:1",
        "subscribe": "t",
        "startingOffsets": "earliest",
        "kafka.security.protocol": "SSL",
        "includeHeaders": "true",
    }
    assert kafka.parser_options(given) == {"sep": ";"}
    assert kafka.client_options(given) == {"security.protocol": "SSL", "bootstrap.servers": "a:1"}
    assert kafka.topics(given) == ("t",)


def test_partitions_have_progress_of_their_own_where_rows_bring_timestamps() -> None:
    assert kafka.is_partitioned(stream("n", ("format", "json"), timestamp="n"))
    assert not kafka.is_partitioned(stream("n", ("format", "json")))


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("n", (("format", "xml"),), "format 'xml' of kafka is not known"),
        ("", (("format", "json"),), "needs the columns of its values"),
        ("key", (("format", "json"),), "needs the columns of its values"),
        ("n", (), "column n is neither value nor metadata of a record"),
        ("n", (("format", "avro"),), "avro needs the option schema"),
        ("n", (("format", "json"), ("metadata", "age")), "a record of Kafka has no age"),
        ("n", (("format", "json"), ("subscribePattern", "t.*")), "topic and subscribepattern exclude"),
    ],
)
def test_a_stream_that_cannot_be_read_is_refused(
    names: str, options: tuple[tuple[str, str], ...], message: str
) -> None:
    with pytest.raises(SetupError, match=message):
        kafka.check_stream(stream(names, *options))
