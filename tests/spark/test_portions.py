"""What a first tick takes of each kind of source, where the user has set no limit."""

from __future__ import annotations

import pytest

from headgate.model.network import StreamDefinition
from headgate.runtime.allowance import Portion
from headgate.spark.sources import portion_of


def portion(format: str, **options: str) -> Portion | None:
    return portion_of(StreamDefinition("s", format, None, options=tuple(options.items())), 10_000)


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "orc"])
def test_of_files_it_takes_one(format: str) -> None:
    assert portion(format, path="in") == Portion(1, of_files=True)


@pytest.mark.parametrize("format", ["burst", "kafka"])
def test_of_other_sources_that_can_wait_it_takes_some_rows(format: str) -> None:
    assert portion(format) == Portion(10_000)


@pytest.mark.parametrize("format", ["rate", "socket", "dataframe"])
def test_other_sources_cannot_be_held_back(format: str) -> None:
    assert portion(format) is None


@pytest.mark.parametrize(
    ("format", "option"),
    [
        ("parquet", "maxFilesPerTrigger"),
        ("csv", "MAXBYTESPERTRIGGER"),
        ("kafka", "maxOffsetsPerTrigger"),
        ("burst", "maxRowsPerTrigger"),
        ("burst", "rowsPerTrigger"),
    ],
)
def test_a_limit_of_the_users_is_left_alone(format: str, option: str) -> None:
    assert portion(format, **{option: "3"}) is None
