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

DISAGREEMENTS: dict[str, str] = {}
"""Reasons by the name of the check."""
