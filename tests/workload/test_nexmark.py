"""The events of NEXMark: their order, identities, times, values and sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headgate.errors import SetupError
from headgate.workload import nexmark
from headgate.workload.nexmark import EVENT_TABLES, EventSequence, parse_rate, side_input

# a true claim fails once in a million seeds, and the seed is fixed
FALSE_ALARM = 1e-6
SEQUENCE = EventSequence(seed=20)
# well after the start, and not at a multiple of anything
FIRST, LAST = 7_777_777, 8_177_777


@cache
def rows(table: str) -> pa.Table:
    return SEQUENCE.table(table, FIRST, LAST)


def values(table: str, column: str) -> Any:
    """A column as an array; times are microseconds."""
    found = rows(table)[column]
    return found.cast(pa.int64()).to_numpy() if pa.types.is_temporal(found.type) else found.to_numpy()


def rounds(table: str) -> Any:
    """How many groups of 50 events come before each row."""
    return (values(table, "dateTime") - SEQUENCE.start_us) // (50 * 100)


def assert_share(hits: int, trials: int, share: float) -> None:
    assert stats.binomtest(int(hits), int(trials), share).pvalue > FALSE_ALARM


def assert_equally_frequent(found: Any, among: list[Any]) -> None:
    counts = Counter(found)
    assert set(counts) == set(among)
    assert stats.chisquare([counts[value] for value in among]).pvalue > FALSE_ALARM


def assert_uniform(numbers: Any) -> None:
    """On the interval from 0 to 1."""
    assert stats.kstest(numbers, "uniform").pvalue > FALSE_ALARM


def test_every_fifty_events_are_a_person_three_auctions_and_46_bids() -> None:
    times = [
        (time, name) for name in EVENT_TABLES for time in SEQUENCE.table(name, 0, 500)["dateTime"].to_pylist()
    ]
    assert [name for _, name in sorted(times)] == 10 * ["person", *3 * ["auction"], *46 * ["bid"]]


@pytest.mark.parametrize("rate", ["10000", "3", "0.001", "999999", "1000000", "0.7", "12345.678"])
@pytest.mark.parametrize("first", [0, 10**9 + 3])
def test_event_n_happens_n_over_rate_seconds_after_the_start(rate: str, first: int) -> None:
    sequence = EventSequence(rate=parse_rate(rate), start_us=5)
    found = sorted(
        time
        for name in EVENT_TABLES
        for time in sequence.table(name, first, first + 60)["dateTime"].cast(pa.int64()).to_pylist()
    )
    assert found == [5 + int(n * 1_000_000 / Fraction(rate)) for n in range(first, first + 60)]


def test_the_start_is_a_fixed_midnight_unless_stated() -> None:
    [first] = EventSequence().table("person", 0, 1)["dateTime"].to_pylist()
    assert first == datetime(2015, 7, 15, tzinfo=timezone.utc)


@given(st.integers(0, 10**12), st.sampled_from(["10000", "3", "0.7", "1000000"]))
def test_events_before_a_time_are_those_that_happen_before_it(offset_us: int, rate: str) -> None:
    sequence = EventSequence(rate=parse_rate(rate))
    count = sequence.events_before(offset_us)
    assert sequence.offset_us(count) >= offset_us
    assert count == 0 or sequence.offset_us(count - 1) < offset_us


@pytest.mark.parametrize("kind", EVENT_TABLES.values(), ids=lambda kind: kind.name)
def test_rows_and_events_are_numbered_alike(kind: nexmark.EventTable) -> None:
    owner = ["person", *3 * ["auction"], *46 * ["bid"]]
    events = [n for n in range(170) if owner[n % 50] == kind.name]
    assert [kind.event_of(row) for row in range(len(events))] == events
    assert [kind.rows_before(n) for n in range(171)] == [sum(e < n for e in events) for n in range(171)]


def test_people_and_auctions_are_numbered_from_1000_on() -> None:
    for name, per_round in (("person", 1), ("auction", 3)):
        assert SEQUENCE.table(name, 0, 5000)["id"].to_pylist() == list(range(1000, 1000 + 100 * per_round))
        assert (np.diff(values(name, "id")) == 1).all()


@settings(max_examples=40)
@given(
    st.integers(0, 2**70),
    st.sampled_from([0, 49, 2_500, 10**6 + 1, 10**12]),
    st.lists(st.integers(0, 400), min_size=1, max_size=6),
    st.sampled_from(sorted(EVENT_TABLES)),
)
def test_a_range_of_events_is_the_same_however_it_is_cut(
    seed: int, first: int, cuts: list[int], name: str
) -> None:
    sequence = EventSequence(seed, parse_rate("7"), 0)
    edges = [first, *sorted(first + cut for cut in cuts), first + 400]
    parts = [sequence.table(name, begin, end) for begin, end in pairwise(edges)]
    assert pa.concat_tables(parts).combine_chunks() == sequence.table(name, first, first + 400)


def test_long_ranges_are_made_of_batches_and_do_not_depend_on_them() -> None:
    whole = SEQUENCE.table("bid", 100, 60_000)
    assert whole["extra"].num_chunks > 1
    parts = [SEQUENCE.table("bid", *ends) for ends in ((100, 20_011), (20_011, 60_000))]
    assert pa.concat_tables(parts).combine_chunks() == whole.combine_chunks()


@pytest.mark.parametrize("name", EVENT_TABLES)
def test_columns_are_the_same_alone_as_together(name: str) -> None:
    kind, whole = EVENT_TABLES[name], SEQUENCE.table(name, 0, 1000)
    assert whole.schema == kind.schema
    for column in kind.schema.names:
        [batch] = SEQUENCE.batches(kind, 0, 1000, [column])
        assert batch.schema.names == [column]
        assert batch[column] == whole[column].combine_chunks()


def test_another_seed_gives_other_values_at_the_same_times() -> None:
    one, other = (EventSequence(seed).table("bid", 0, 5000) for seed in (1, 2))
    assert one["dateTime"] == other["dateTime"]
    for column in ("auction", "bidder", "price", "channel", "extra"):
        differing = pc.sum(pc.not_equal(one[column], other[column])).as_py()
        assert differing > 0.3 * one.num_rows


def test_rows_of_a_seed_stay_what_they_are() -> None:
    # a stream goes on after an upgrade: its checkpoint knows only how many events it has had
    [bid] = EventSequence(1).table("bid", 4, 5).to_pylist()
    assert bid | {"dateTime": None} == {
        "auction": 1009,
        "bidder": 1001,
        "price": 100501,
        "channel": "channel-4633",
        "url": "https://www.nexmark.com/sl__d/elrys/_jf_f/item.htm?query=1&channel_id=2554855424",
        "dateTime": None,
        "extra": "ohwpkkqpbzwnoicyzjgtyichjzjutvqakphrxqamkxcgkkiwkfugckspkbwncijauftds",
    }
    [person] = EventSequence(1).table("person", 0, 1).to_pylist()
    assert (person["name"], person["creditCard"]) == ("John Bartels", "8424 9926 6294 0268")
    [auction] = EventSequence(1).table("auction", 1, 2).to_pylist()
    assert (auction["itemName"], auction["initialBid"]) == ("duixh qyojmujvhltuj", 1542190)


def others(table: str, column: str, newest: Any, active: int, hot: Any, hot_share: float) -> None:
    """Check who is named: the hot one by its share, and otherwise any of the active ones or of 10 to come."""
    named = values(table, column) - 1000
    choices = active + 10
    assert_share((named == hot).sum(), len(named), hot_share + (1 - hot_share) / choices)
    cold = named != hot
    places = (named - (newest - active + 1))[cold]
    assert places.min() == 0 and places.max() == choices - 1
    # a row cannot have its own hot one here
    barred = np.bincount((hot - (newest - active + 1))[cold], minlength=choices)
    expected = (len(places) - barred) / (choices - 1)
    assert stats.chisquare(np.bincount(places, minlength=choices), expected).pvalue > FALSE_ALARM


def test_three_sellers_of_four_are_the_first_person_of_the_last_hundred() -> None:
    newest = rounds("auction")
    others("auction", "seller", newest, 1000, newest // 100 * 100, 3 / 4)


def test_three_bidders_of_four_are_the_second_person_of_the_last_hundred() -> None:
    newest = rounds("bid")
    others("bid", "bidder", newest, 1000, newest // 100 * 100 + 1, 3 / 4)


def test_every_second_bid_is_on_the_first_auction_of_the_last_hundred() -> None:
    newest = 3 * rounds("bid") + 2
    others("bid", "auction", newest, 100, newest // 100 * 100, 1 / 2)


def test_near_the_start_only_those_are_named_who_are_there_or_soon_to_come() -> None:
    for table, column, per_round in (("auction", "seller", 1), ("bid", "bidder", 1), ("bid", "auction", 3)):
        found = SEQUENCE.table(table, 0, 1000)
        number = (found["dateTime"].cast(pa.int64()).to_numpy() - SEQUENCE.start_us) // 100
        newest = per_round * (number // 50 + 1) - 1
        named = found[column].to_numpy() - 1000
        assert named.min() == 0
        assert (named <= newest + 10).all() and (named > newest).any()


@pytest.mark.parametrize("rate", ["10000", "0.5", "1000000"])
def test_auctions_last_up_to_twice_the_time_in_which_a_hundred_are_made(rate: str) -> None:
    sequence = EventSequence(3, parse_rate(rate))
    table = sequence.table("auction", 0, 500_000)
    length_us = pc.subtract(table["expires"].cast(pa.int64()), table["dateTime"].cast(pa.int64())).to_numpy()
    longest_us = 2 * 100 * (50 / 3) / float(rate) * 1e6
    assert length_us.min() >= 1 and length_us.max() <= longest_us
    # whole microseconds, spread over their width
    assert_uniform((length_us - np.random.default_rng(1).random(len(length_us))) / longest_us)


@pytest.mark.parametrize(
    "prices",
    [
        lambda: values("bid", "price"),
        lambda: values("auction", "initialBid"),
        lambda: values("auction", "reserve") - values("auction", "initialBid"),
    ],
    ids=["price", "initialBid", "reserve"],
)
def test_prices_are_powers_of_ten_with_uniform_exponents(prices: Callable[[], Any]) -> None:
    found = prices()
    assert found.min() >= 100 and found.max() <= 100_000_000
    # whole numbers, spread over their width
    spread = found + np.random.default_rng(1).uniform(-0.5, 0.5, len(found))
    assert_uniform(np.clip(np.log10(spread / 100) / 6, 0, 1))


def test_columns_are_drawn_apart() -> None:
    bid = {column: values("bid", column) for column in ("auction", "bidder", "price")}
    newest = rounds("bid")
    marks = {
        "hot auction": bid["auction"] - 1000 == (3 * newest + 2) // 100 * 100,
        "hot bidder": bid["bidder"] - 1000 == newest // 100 * 100 + 1,
        "hot channel": pc.invert(pc.starts_with(rows("bid")["channel"], "channel-")).to_numpy(),
        "high price": bid["price"] > 100_000,
    }
    for one, other in pairwise([*marks, "hot auction"]):
        table = stats.contingency.crosstab(marks[one], marks[other]).count
        assert stats.chi2_contingency(table).pvalue > FALSE_ALARM, (one, other)
    added = values("auction", "reserve") - values("auction", "initialBid")
    assert stats.spearmanr(values("auction", "initialBid"), added).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("table", "column", "among"),
    [
        ("auction", "category", [10, 11, 12, 13, 14]),
        ("person", "state", ["AZ", "CA", "ID", "OR", "WA", "WY"]),
        ("person", "city", list(nexmark.CITIES)),
        ("person", "name", [f"{a} {b}" for a in nexmark.FIRST_NAMES for b in nexmark.LAST_NAMES]),
    ],
)
def test_values_from_lists_are_equally_frequent(table: str, column: str, among: list[Any]) -> None:
    assert_equally_frequent(rows(table)[column].to_pylist(), among)


def test_there_are_ten_cities() -> None:
    assert len(set(nexmark.CITIES)) == 10


def test_half_of_the_bids_have_one_of_four_channels_and_the_others_one_of_10000() -> None:
    channels = rows("bid")["channel"].to_pylist()
    hot = [channel for channel in channels if not channel.startswith("channel-")]
    assert_share(len(hot), len(channels), 1 / 2)
    assert_equally_frequent(hot, ["Google", "Facebook", "Baidu", "Apple"])
    cold = [channel for channel in channels if channel.startswith("channel-")]
    assert_equally_frequent(cold, [f"channel-{number}" for number in range(10_000)])


def test_every_channel_has_one_url_whatever_the_seed() -> None:
    groups = rows("bid").group_by(["channel", "url"]).aggregate([])
    assert groups.num_rows == 10_004
    other = EventSequence(99).table("bid", 0, 20_000).group_by(["channel", "url"]).aggregate([])
    assert set(map(tuple, map(dict.values, other.to_pylist()))) <= set(
        map(tuple, map(dict.values, groups.to_pylist()))
    )


def test_urls_have_three_folders_and_nine_of_ten_a_channel_id() -> None:
    form = re.compile(r"https://www\.nexmark\.com(/[a-z_]{5}){3}/item\.htm\?query=1(?:&channel_id=(\d+))?")
    bids = rows("bid")
    is_cold = pc.starts_with(bids["channel"], "channel-")
    cold, hot = bids.filter(is_cold), bids.filter(pc.invert(is_cold))
    assert len(pc.unique(hot["url"])) == 4
    assert all(form.fullmatch(url)[2] is None for url in pc.unique(hot["url"]).to_pylist())  # type: ignore[index]
    counted = cold.group_by("url").aggregate([("url", "count")]).to_pylist()
    ids = {row["url"]: form.fullmatch(row["url"])[2] for row in counted}  # type: ignore[index]
    assert_share(sum(row["url_count"] for row in counted if ids[row["url"]]), cold.num_rows, 9 / 10)
    known = [number for number in ids.values() if number is not None]
    assert len(known) == len(set(known)) == 9000


@pytest.mark.parametrize(
    ("table", "mean_bytes", "uncounted"),
    [("person", 200, ()), ("auction", 500, ()), ("bid", 100, ("channel", "url"))],
)
def test_extra_pads_rows_to_their_mean_size(table: str, mean_bytes: int, uncounted: tuple[str, ...]) -> None:
    found = rows(table).drop_columns(list(uncounted))
    texts = [c for c in found.column_names if found.schema.field(c).type == pa.string()]
    without = 8.0 * (found.num_columns - len(texts)) + sum(
        pc.binary_length(found[c]).to_numpy() for c in texts if c != "extra"
    )
    extra = pc.binary_length(found["extra"]).to_numpy()
    sizes = without + extra
    error = sizes.std() / np.sqrt(len(sizes))
    assert sizes.mean() == pytest.approx(mean_bytes, abs=5 * error)
    assert (np.abs(extra - (mean_bytes - without)) <= 0.2 * (mean_bytes - without) + 0.5).all()


def test_extra_has_all_letters_equally_often() -> None:
    for table in EVENT_TABLES:
        text = "".join(rows(table)["extra"].slice(0, 10_000).to_pylist())
        assert_equally_frequent(text, [chr(code) for code in range(ord("a"), ord("z") + 1)])


def test_texts_of_people_have_their_forms() -> None:
    people = rows("person")
    for column, form in (
        ("emailAddress", "[a-z]{3,6}@[a-z]{3,4}[.]com"),
        ("creditCard", "[0-9]{4}( [0-9]{4}){3}"),
    ):
        assert pc.all(pc.match_substring_regex(people[column], f"^{form}$")).as_py()
        assert len(pc.unique(people[column])) > 0.99 * people.num_rows


@pytest.mark.parametrize(("column", "longest"), [("itemName", 19), ("description", 99)])
def test_texts_of_auctions_are_words_of_three_letters_or_more(column: str, longest: int) -> None:
    texts = rows("auction")[column]
    assert pc.all(pc.match_substring_regex(texts, "^[a-z][a-z ]+[a-z]$")).as_py()
    assert_equally_frequent(pc.binary_length(texts).to_pylist(), list(range(3, longest + 1)))
    inner = "".join(text[1:-1] for text in texts.to_pylist())
    assert_share(inner.count(" "), len(inner), 1 / 13)


def test_the_side_input_has_a_text_for_each_number_below_10000() -> None:
    table = side_input()
    assert table.schema == pa.schema([("key", pa.int64()), ("value", pa.string())])
    assert table["key"].to_pylist() == list(range(10_000))
    assert table["value"].to_pylist() == [str(key) for key in range(10_000)]


@pytest.mark.parametrize(
    "text", ["0", "-3", "nan", "inf", "1000001", "10.0001", "0.0005", "1e999999999", "1e-999999999"]
)
def test_rates_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(SetupError, match=r"out of range; write 0\.001 to 1000000, with at most"):
        parse_rate(text)


def test_what_is_no_rate_is_refused() -> None:
    with pytest.raises(SetupError, match="'fast' is not a rate; write events per second, as in '10000'"):
        parse_rate("fast")


def test_negative_seeds_are_refused() -> None:
    with pytest.raises(SetupError, match="a seed of -1 is negative"):
        EventSequence(-1)


def test_events_end_before_the_calendar_does() -> None:
    assert EventSequence().length_us(1) == 1
    assert EventSequence().length_us(10_001) == 1_000_001
    with pytest.raises(SetupError, match="would last beyond the year 9999; write fewer, or a higher rate"):
        EventSequence(rate=parse_rate("0.001")).length_us(10**9)
