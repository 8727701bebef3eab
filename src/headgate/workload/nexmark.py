"""The events of NEXMark, the benchmark of an auction site: people, auctions, bids.

Events are numbered from 0. Every 50 in a row are 1 person, 3 auctions and 46 bids, in that order, and event n
happens ``n / rate`` seconds after the start, cut to microseconds. A value is a hash of seed, table, column
and event number, so that any range of events can be generated alone, and gives the same rows.

Where descriptions of the benchmark leave a choice, this is ours:

* People and auctions are numbered from 1000 on. *The last hundred* are those of the newest id and of the same
  hundred: the hot seller of people 1200 to 1299 is 1200, their hot bidder is 1201, and may be yet to come.
  Other sellers and bidders are uniform over the latest 1000 people and the 10 to come, other auctions of bids
  over the latest 100 and the 10 to come. Near the start, there are fewer.
* An auction expires after 1 us to twice the time in which 100 auctions are made, uniformly.
* Sizes count 8 bytes for a number or a timestamp, and the length of a text. In bids, ``channel`` and ``url``
  do not count: they alone would exceed 100 bytes. ``extra`` has lower-case letters; its length is
  uniform within 20 % of what is missing.
* City and state are drawn independently, and so are first and last name. An item's name has 3 to 19 letters
  or blanks, its description 3 to 99; both begin and end with a letter. E-mail addresses have letters alone.
* Channels and their URLs are the same for all seeds. Exactly 9000 of the 10,000 channels have a URL with a
  ``channel_id``, the channel's number with its 32 bits reversed. The folders of a URL have five symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.errors import InternalError, SetupError
from headgate.model.uniform_hash import key_of, mix, tuple_id, uniform
from headgate.workload.random_text import DIGITS, LETTERS, letters_and

EVENT_TIME = "dateTime"
EVENTS_PER_ROUND = 50
HIGHEST_RATE = 1_000_000
"""With more events per second, some would have the same microsecond."""
SIDE_INPUT_ROWS = 10_000
DEFAULT_RATE = Fraction(10_000)
DEFAULT_SEED = 1
DEFAULT_START_US = 1_436_918_400_000_000
"""2015-07-15 00:00 UTC."""

FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS, CHANNELS_WITH_ID = 10_000, 9_000
_GROUP, _ACTIVE_PEOPLE, _ACTIVE_AUCTIONS, _TO_COME = 100, 1000, 100, 10
# few enough for what is computed of them to stay in a processor's cache
_ROWS_PER_BATCH = 1 << 14
_YEAR_10000_US = 253_402_300_800_000_000
AnyInt = TypeVar("AnyInt", int, NDArray[np.int64])


@dataclass(frozen=True)
class EventSequence:
    """All events of one seed; equal settings give equal events."""

    seed: int = DEFAULT_SEED
    rate: Fraction = DEFAULT_RATE
    """Events per second of event time."""
    start_us: int = DEFAULT_START_US
    """Event time of event 0, in microseconds since 1970."""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise SetupError(f"a seed of {self.seed} is negative; write 0 or more")
        if not _is_rate(self.rate):
            raise InternalError(f"a rate of {self.rate} is out of range; read rates by parse_rate")

    @property
    def step_us(self) -> Fraction:
        """Microseconds between two events."""
        return 1_000_000 / self.rate

    def offset_us(self, number: AnyInt) -> AnyInt:
        """Time of an event since the start; of one, or of an array."""
        step, per = self.step_us.numerator, self.step_us.denominator
        # whole numbers that stay below 2 ** 63
        return number // per * step + number % per * step // per

    def events_before(self, offset_us: int) -> int:
        """How many events happen before a time since the start."""
        return -int(-offset_us // self.step_us)

    def length_us(self, events: int) -> int:
        """The time since the start at which the first ``events`` are over: a microsecond after the last."""
        length_us = self.offset_us(events - 1) + 1
        if self.start_us + length_us > _YEAR_10000_US:
            shown = f"{events:,} events at a rate of {float(self.rate):g}"
            raise SetupError(f"{shown} would last beyond the year 9999; write fewer, or a higher rate")
        return length_us

    def table(self, name: str, first: int, last: int) -> pa.Table:
        """The rows of a table that events ``[first, last)`` consist of."""
        kind = EVENT_TABLES[name]
        return pa.Table.from_batches(self.batches(kind, first, last, kind.schema.names), kind.schema)

    def batches(
        self, kind: EventTable, first: int, last: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the same rows, in batches of bounded memory."""
        schema = pa.schema([kind.schema.field(column) for column in columns])
        begin, end = kind.rows_before(first), kind.rows_before(last)
        for row in range(begin, end, _ROWS_PER_BATCH):
            rows = _Rows(self, kind, np.arange(row, min(end, row + _ROWS_PER_BATCH)))
            yield pa.RecordBatch.from_arrays([rows.column(column) for column in columns], schema=schema)


def parse_rate(text: str) -> Fraction:
    """Events per second."""
    try:
        rate = Decimal(text.strip())
    except InvalidOperation:
        raise SetupError(f"'{text}' is not a rate; write events per second, as in '10000'") from None
    # the exponent first: a fraction has as many digits as it says
    if not rate.is_finite() or abs(rate.adjusted()) > 9 or not _is_rate(Fraction(rate)):
        wanted = f"write 0.001 to {HIGHEST_RATE}, with at most three decimals"
        raise SetupError(f"a rate of {text} is out of range; {wanted}")
    return Fraction(rate)


def _is_rate(rate: Fraction) -> bool:
    return 0 < rate <= HIGHEST_RATE and (rate * 1000).denominator == 1


@dataclass(frozen=True, eq=False)
class _Rows:
    """Consecutive rows of one table."""

    events: EventSequence
    kind: EventTable
    place: NDArray[np.int64]
    """Place of each row in its table, from 0."""
    _columns: dict[str, pa.Array] = field(default_factory=dict)

    def column(self, name: str) -> pa.Array:
        # sizes depend on other columns
        if name not in self._columns:
            type_, fill = self.kind.fillers[name]
            self._columns[name] = pa.array(fill(self), type_)
        return self._columns[name]

    @cached_property
    def number(self) -> NDArray[np.int64]:
        """Number of each event."""
        return self.kind.event_of(self.place)

    @cached_property
    def round(self) -> NDArray[np.int64]:
        """How many rounds of 50 events come before; also the newest person, counted from 0."""
        return self.number // EVENTS_PER_ROUND

    @cached_property
    def time_us(self) -> NDArray[np.int64]:
        return self.events.start_us + self.events.offset_us(self.number)

    @cached_property
    def _identity(self) -> Any:
        # the same arithmetic on an array as on a number
        number: Any = self.number.view(np.uint64)
        return tuple_id(key_of(self.events.seed, "nexmark", self.kind.name), number)

    def key(self, draw: str) -> NDArray[np.uint64]:
        """64 random bits for each row."""
        return np.asarray(mix(key_of(self.events.seed, self.kind.name, draw) ^ self._identity))

    def uniform(self, draw: str) -> NDArray[np.float64]:
        """Numbers in ``[0, 1)``."""
        return np.asarray(uniform(key_of(self.events.seed, self.kind.name, draw), self._identity))

    def below(self, draw: str, bound: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """Whole numbers from 0 to ``bound - 1``."""
        return (self.uniform(draw) * bound).astype(np.int64)

    def pick(self, draw: str, values: tuple[str, ...]) -> pa.Array:
        return pa.array(values).take(self.below(draw, len(values)))

    def price(self, draw: str) -> NDArray[np.int64]:
        return np.rint(10 ** (6 * self.uniform(draw)) * 100).astype(np.int64)

    def letters(self, draw: str, shortest: int, longest: int) -> pa.Array:
        return LETTERS.texts(self.key(draw), shortest + self.below(f"{draw} length", longest - shortest + 1))

    def words(self, draw: str, longest: int) -> pa.Array:
        """3 to ``longest`` letters and blanks, with a letter at both ends."""
        middle = _WORDS.texts(self.key(draw), 1 + self.below(f"{draw} length", longest - 2))
        ends = (LETTERS.texts(self.key(f"{draw} {end}"), np.ones_like(self.place)) for end in ("a", "z"))
        return pc.binary_join_element_wise(next(ends), middle, next(ends), "")

    def person(self, draw: str, place_in_group: int) -> NDArray[np.int64]:
        """The hot person for three rows of four; for others, one of those who are there or to come."""
        hot = self.round // _GROUP * _GROUP + place_in_group
        active = np.minimum(self.round + 1, _ACTIVE_PEOPLE)
        other = self.round + 1 - active + self.below(draw, active + _TO_COME)
        return FIRST_ID + np.where(self.uniform(f"{draw} hot") < 3 / 4, hot, other)

    def auction(self) -> NDArray[np.int64]:
        newest = _AUCTION.rows_per_round * (self.round + 1) - 1
        active = np.minimum(newest + 1, _ACTIVE_AUCTIONS)
        other = newest + 1 - active + self.below("auction", active + _TO_COME)
        hot = newest // _GROUP * _GROUP
        return FIRST_ID + np.where(self.uniform("auction hot") < 1 / 2, hot, other)

    def expires_us(self) -> NDArray[np.int64]:
        made_in = Fraction(_ACTIVE_AUCTIONS * EVENTS_PER_ROUND, _AUCTION.rows_per_round)
        return self.time_us + 1 + self.below("expires", int(2 * made_in * self.events.step_us))

    @cached_property
    def channel(self) -> NDArray[np.int64]:
        """Place of each row's channel among all: first the hot ones, then the others."""
        chance, hot = self.uniform("channel"), len(HOT_CHANNELS)
        place = np.where(self.uniform("channel hot") < 1 / 2, chance * hot, hot + chance * CHANNELS)
        return place.astype(np.int64)

    def extra(self, mean_bytes: int, *texts: str) -> pa.Array:
        """Letters that bring a row to its size; of other texts, ``texts`` count."""
        fixed = 8 * sum(type_ != pa.string() for type_, _ in self.kind.fillers.values())
        present = fixed + sum((pc.binary_length(self.column(text)).to_numpy() for text in texts), start=0)
        missing = np.maximum(np.broadcast_to(mean_bytes - present, self.place.shape), 0).astype(np.int64)
        margin = np.rint(missing * 0.2).astype(np.int64)
        lengths = missing - margin + self.below("extra length", 2 * margin + 1)
        return LETTERS.texts(self.key("extra"), lengths)


_Filler = Callable[[_Rows], Any]
_LONG, _TEXT, _TIME = pa.int64(), pa.string(), pa.timestamp("us", tz="UTC")
_WORDS, _FOLDERS = letters_and(" "), letters_and("_")


@dataclass(frozen=True)
class EventTable:
    """One of the three tables: which events of a round are its rows, and how its columns are filled."""

    name: str
    first_of_round: int
    rows_per_round: int
    fillers: Mapping[str, tuple[pa.DataType, _Filler]]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, type_) for name, (type_, _) in self.fillers.items()])

    def rows_before(self, event: int) -> int:
        """How many rows the table has before an event."""
        rounds, rest = divmod(event, EVENTS_PER_ROUND)
        return rounds * self.rows_per_round + min(max(rest - self.first_of_round, 0), self.rows_per_round)

    def event_of(self, row: AnyInt) -> AnyInt:
        """The number of the event that a row is; of one, or of an array."""
        rounds = row // self.rows_per_round
        return rounds * EVENTS_PER_ROUND + self.first_of_round + row % self.rows_per_round


_NAMES = tuple(f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES)


def _email_address(rows: _Rows) -> pa.Array:
    user, host = rows.letters("user", 3, 6), rows.letters("host", 3, 4)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(user, host, "@"), "com", ".")


def _credit_card(rows: _Rows) -> pa.Array:
    groups = (DIGITS.texts(rows.key(f"creditCard {n}"), np.full_like(rows.place, 4)) for n in range(4))
    return pc.binary_join_element_wise(*groups, " ")


@cache
def _channels() -> tuple[pa.Array, pa.Array]:
    """Name and URL of every channel: the hot ones, then the others."""
    numbers = np.arange(len(HOT_CHANNELS) + CHANNELS)
    names = [*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))]

    def drawn(what: str) -> Any:
        identities: Any = numbers.view(np.uint64)
        return mix(key_of(0, "channel", what) ^ mix(identities))

    folders = (_FOLDERS.texts(drawn(f"folder {n}"), np.full_like(numbers, 5)) for n in range(3))
    urls = pc.binary_join_element_wise("https://www.nexmark.com", *folders, "item.htm?query=1", "/")
    others = numbers[len(HOT_CHANNELS) :]
    chosen = np.sort(others[np.argsort(drawn("id")[len(HOT_CHANNELS) :])][:CHANNELS_WITH_ID])
    suffixes = np.full(len(numbers), "", dtype=object)
    suffixes[chosen] = [f"&channel_id={_reversed_bits(place - len(HOT_CHANNELS))}" for place in chosen]
    return pa.array(names), pc.binary_join_element_wise(urls, pa.array(suffixes, pa.string()), "")


def _reversed_bits(number: int) -> int:
    return int(f"{number:032b}"[::-1], 2)


_PERSON = EventTable(
    "person",
    0,
    1,
    {
        "id": (_LONG, lambda rows: FIRST_ID + rows.place),
        "name": (_TEXT, lambda rows: rows.pick("name", _NAMES)),
        "emailAddress": (_TEXT, _email_address),
        "creditCard": (_TEXT, _credit_card),
        "city": (_TEXT, lambda rows: rows.pick("city", CITIES)),
        "state": (_TEXT, lambda rows: rows.pick("state", STATES)),
        EVENT_TIME: (_TIME, lambda rows: rows.time_us),
        "extra": (
            _TEXT,
            lambda rows: rows.extra(200, "name", "emailAddress", "creditCard", "city", "state"),
        ),
    },
)
_AUCTION = EventTable(
    "auction",
    1,
    3,
    {
        "id": (_LONG, lambda rows: FIRST_ID + rows.place),
        "itemName": (_TEXT, lambda rows: rows.words("itemName", 19)),
        "description": (_TEXT, lambda rows: rows.words("description", 99)),
        "initialBid": (_LONG, lambda rows: rows.price("initialBid")),
        "reserve": (_LONG, lambda rows: rows.price("initialBid") + rows.price("reserve")),
        EVENT_TIME: (_TIME, lambda rows: rows.time_us),
        "expires": (_TIME, lambda rows: rows.expires_us()),
        "seller": (_LONG, lambda rows: rows.person("seller", 0)),
        "category": (_LONG, lambda rows: FIRST_CATEGORY + rows.below("category", CATEGORIES)),
        "extra": (_TEXT, lambda rows: rows.extra(500, "itemName", "description")),
    },
)
_BID = EventTable(
    "bid",
    4,
    46,
    {
        "auction": (_LONG, lambda rows: rows.auction()),
        "bidder": (_LONG, lambda rows: rows.person("bidder", 1)),
        "price": (_LONG, lambda rows: rows.price("price")),
        "channel": (_TEXT, lambda rows: _channels()[0].take(rows.channel)),
        "url": (_TEXT, lambda rows: _channels()[1].take(rows.channel)),
        EVENT_TIME: (_TIME, lambda rows: rows.time_us),
        "extra": (_TEXT, lambda rows: rows.extra(100)),
    },
)
EVENT_TABLES = {kind.name: kind for kind in (_PERSON, _AUCTION, _BID)}


def side_input() -> pa.Table:
    """The stored relation of one query: a text for each number."""
    keys = pa.array(np.arange(SIDE_INPUT_ROWS))
    return pa.table({"key": keys, "value": keys.cast(pa.string())})
