"""Orders of joins: lists of aliases, nested where a plan is bushy."""

from __future__ import annotations

import json

import pytest

from headgate.model.join_order import JoinOrder


def test_an_order_is_read_from_a_text_and_from_lists_and_says_the_same_in_both() -> None:
    order = JoinOrder.read("a b (c  d (e f))")
    assert order == JoinOrder.of(["a", "b", ["c", "d", ["e", "f"]]])
    assert str(order) == "a, b, (c, d, (e, f))"
    assert order.aliases == tuple("abcdef")
    assert JoinOrder.of(json.loads(json.dumps(order.to_json()))) == order


@pytest.mark.parametrize(
    ("text", "problem"),
    [("a (b c", "'\\(' is not closed"), ("a b)", "'\\)' closes nothing"), ("a ()", "is a list of aliases")],
)
def test_a_text_that_is_no_order_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        JoinOrder.read(text)


@pytest.mark.parametrize("given", [[], "ab", None, ["a", 1], ["a", []]])
def test_what_is_no_list_of_aliases_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="an order is a list of aliases"):
        JoinOrder.of(given)


def test_an_order_that_holds_itself_is_refused() -> None:
    endless: list[object] = ["a"]
    endless.append(endless)
    with pytest.raises(ValueError, match="an order is a list of aliases"):
        JoinOrder.of(endless)
