"""The tables of the paper on distributed eddies, and what is known not to come out as they have it."""

from __future__ import annotations

from collections.abc import Mapping

Row = Mapping[float, float]

POLICIES = ("t", "q", "sc", "wsc", "scq", "wscq")
S3_RATES = (200.0, 210.0, 220.0, 230.0, 240.0)
DS3_RATES = (200.0, 300.0, 400.0, 500.0)


def _rows(rates: tuple[float, ...], **values: str) -> dict[str, Row]:
    return {name: dict(zip(rates, map(float, texts.split()), strict=True)) for name, texts in values.items()}


def _means(*values: float) -> dict[str, float]:
    return dict(zip(POLICIES, values, strict=True))


_S3_MOVES = (
    *(("op0", "op1"), ("op0", "op2"), ("op0", "op3"), ("op1", "op2"), ("op1", "op3")),
    *(("op2", "op1"), ("op2", "op3"), ("op3", "op1"), ("op3", "op2")),
)
_J3_MOVES = ("B", "op3"), ("B", "op5")


def _solution(quantity: str, moves: tuple[tuple[str, str], ...], *values: float) -> dict[str, float]:
    names = (quantity, *(f"{before} to {after}" for before, after in moves))
    return dict(zip(names, values, strict=True))


SOLUTIONS = {
    "4.3, S3 at 200": _solution("ART", _S3_MOVES, 0.14, 0.21, 0.78, 0.01, 0.98, 0.02, 0.99, 0.01, 0.15, 0.85),
    "4.4, S3": _solution("MDR", _S3_MOVES, 243, 0.31, 0.68, 0.01, 0.77, 0.23, 0.50, 0.50, 0.16, 0.84),
    "4.7, J3 at 120": _solution("ART", _J3_MOVES, 0.08, 0.0, 1.0),
    "4.8, J3": _solution("MDR", _J3_MOVES, 153, 0.24, 0.76),
}
"""Least response times, largest rates, and the weights of the moves that achieve them."""

S3_ART = _rows(
    S3_RATES,
    model=".14 .18 .25 .43 1.57",
    t=".35 22 26 35 45",
    q="1.5 2.1 2.6 3 3.8",
    sc=".11 2.3 23 34 44",
    wsc=".12 .49 9 20 29",
    scq=".54 .95 1.2 1.4 2.2",
    wscq=".22 .44 .61 .8 1.6",
)
"""Table 4.10."""

DS3_ART = _rows(
    DS3_RATES,
    model=".04 .06 .09 .23",
    t=".06 .27 .56 20",
    q=".99 81 512 760",
    sc=".04 .74 208 332",
    wsc=".04 .07 50 124",
    scq=".05 .18 .29 .6",
    wscq=".05 .12 .45 .8",
)
"""Table 5.2."""

MEANS = {
    "4.11": _means(158, 66.6, 6.0, 4.7, 3.7, 1.92),
    "4.12": _means(35, 150, 194, 277, 349, 347),
    "4.13": _means(331, 3.3, 21, 26, 1.52, 1.3),
    "4.14": _means(22, 94, 61, 63, 96, 97),
    "5.3": _means(311, 175, 250, 835, 1315, 1297),
    "5.4": _means(607, 1247, 248, 34, 17, 31),
    "5.5": _means(71, 323, 3030, 89, 21, 19),
    "5.6": _means(561, 428, 99, 279, 691, 657),
}
"""Geometric means of response times and largest rates over random plans."""

_S3_AT_200 = (
    "sc and t send all tuples to op2 first, whose load is then exactly 1: they wait for seconds. The "
    "paper has 0.11 s for sc, below its own least response time of 0.14 s"
)
_DS3_Q = (
    "at 400 instead of 300, then with 662 and 977 s (paper: 512 and 760). If nodes split at 200 "
    "tuples, q has 219 s at 300, but scq 561 s"
)
_DS3_WSC = (
    "at 500 instead of 400. In none of about 35 trials was wsc over 1 s at 400: one copy of op2 has "
    "more than it needs"
)
_DS3_OPTIMAL = (
    "not a claim of the paper: 19.6 s at 500. Probably (not tested), since it solves for boxes where "
    "they began, not for the copies that splitting adds"
)
_DS3_AT_200 = "scq at 0.08 s comes behind t at 0.065 s; the paper has 0.05 and 0.06 s"
_DS3_TICKETS = (
    "at 400 instead of 500. t jumps with the limit of tickets and the threshold of splits: from 1 to "
    "1320 s at 400 in trials. Here most of the work goes to copies of op3. Where boxes begin with twice "
    "what they have in S3, t collapses at 500"
)
_DS3_QUEUES = (
    "t is out of place as in its collapse; scq, with 2 s at 400 and 500 where the paper has 0.3 and "
    "0.6, comes behind wscq; wsc is sustained for longer than in the paper"
)
_ONE_SERVER = (
    "all tuples of a stream pass its first operator, which limits all policies alike: without "
    "splitting, their largest rates are within 15 % of each other, and so is the precision of a "
    "search on four plans"
)
_PAGES = (
    "a tuple that visits 25 operators in pages takes 15 s or more under any policy, which the paper's "
    "1.92 s exclude. Probably (not tested), published queues are older than what is on its way in "
    "pages, so that q, scq and wscq flock to queues that were short"
)
_SHORTER_PATHS = (
    "q, scq and wscq are out of place; t, sc and wsc are within 1.6 times the paper's values. A tuple "
    "visits some 8 operators, for which pages alone take 4 s; the paper's 1.92 s for wscq leave room for "
    "3 or 4 visits"
)
_FREE_RATES = (
    "t is worst by far, as in the paper; q, wsc, scq and wscq are within a tenth of each other. Orders "
    "are shuffled by chance there: four plans"
)
_JOIN_RATES = (
    "q is out of place, at twice the paper's value. All others are in the paper's order, and sc, wsc, scq "
    "and wscq within a quarter of it"
)
_BOUND = (
    "by the analysis, no routing and no splitting gains that much on these plans, but 1.1 to 1.8 times: "
    "see the table of largest rates, fixed and shared freely"
)
_NO_ROOM = (
    "the paper's 1300 tuples per second are beyond what the analysis allows on these plans; below that, "
    "sc and wsc lead, and scq and wscq spread over all nodes, of which few then accept copies (probably: "
    "not tested)"
)
_MANY_PLANS = (
    "here sc and wsc do not suffer from many plans, probably (not tested) since each plan has its own "
    "best operators. One set of plans, and no other was tried"
)
_TOO_SHORT = (
    "rates are above what the analysis allows: 400,000 tuples are 20,000 a plan, too few to pile up "
    "10,000 at a node. They say little about orders"
)


def _out_of_order(name: str) -> str:
    return f"{name}: pairs of policies out of the paper's order"


def _lift(name: str, policy: str) -> str:
    return f"{name}: largest rate of {policy} with splitting over that without"


DISAGREEMENTS = {
    _out_of_order("4.10, S3 at 200"): _S3_AT_200,
    "DS3: the rate at which t collapses": _DS3_TICKETS,
    "DS3: the rate at which q collapses": _DS3_Q,
    "DS3: the rate at which wsc collapses": _DS3_WSC,
    "DS3: rates at which optimal collapses": _DS3_OPTIMAL,
    _out_of_order("5.2, DS3 at 200"): _DS3_AT_200,
    _out_of_order("5.2, DS3 at 300"): _DS3_QUEUES,
    _out_of_order("5.2, DS3 at 400"): _DS3_QUEUES,
    _out_of_order("5.2, DS3 at 500"): _DS3_QUEUES,
    _lift("single plans, free order", "scq"): _BOUND,
    _lift("single plans, free order", "wscq"): _BOUND,
    "single plans, free order: what splitting gives sc and wscq": _NO_ROOM,
    _lift("single plans, joins", "scq"): _BOUND,
    _lift("single plans, joins", "wscq"): _BOUND,
    "single plans, joins: what splitting gives sc and wscq": _NO_ROOM,
    _out_of_order("4.11, single plans, joins"): _SHORTER_PATHS,
    _out_of_order("4.12, single plans, joins"): _JOIN_RATES,
    _out_of_order("5.3, single plans, joins"): _NO_ROOM,
    _out_of_order("5.4, single plans, joins"): _SHORTER_PATHS,
    _lift("20 plans at once, joins", "scq"): _BOUND,
    _lift("20 plans at once, joins", "wscq"): _BOUND,
    _out_of_order("4.13, 20 plans at once, joins"): _MANY_PLANS,
    _out_of_order("5.5, 20 plans at once, joins"): _MANY_PLANS,
    _out_of_order("5.6, 20 plans at once, joins"): _TOO_SHORT,
    _out_of_order("4.11, single plans, free order"): _PAGES,
    _out_of_order("4.11, single plans, windows first"): _ONE_SERVER,
    _out_of_order("4.12, single plans, free order"): _FREE_RATES,
    _out_of_order("4.12, single plans, windows first"): _ONE_SERVER,
    _out_of_order("5.3, single plans, free order"): _NO_ROOM,
    _out_of_order("5.3, single plans, windows first"): _ONE_SERVER,
    _out_of_order("5.4, single plans, free order"): _PAGES,
    _out_of_order("5.4, single plans, windows first"): _ONE_SERVER,
    _lift("20 plans at once, free order", "scq"): _BOUND,
    _lift("20 plans at once, free order", "wscq"): _BOUND,
    "20 plans at once, free order: what splitting gives sc and wscq": _BOUND,
    _out_of_order("4.13, 20 plans at once, free order"): _PAGES,
    _out_of_order("4.14, 20 plans at once, free order"): _MANY_PLANS,
    _out_of_order("5.5, 20 plans at once, free order"): _PAGES,
    _out_of_order("5.6, 20 plans at once, free order"): _TOO_SHORT,
}
"""Reasons by the name of the check."""
