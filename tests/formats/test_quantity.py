"""Numbers that users write."""

from __future__ import annotations

import math
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SetupError
from headgate.formats.document import checked
from headgate.formats.quantity import PROCESSORS, RATE, SEED, SHARE, Quantity

SIZES = Quantity("bytes", 0.5, 1e12)


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (RATE, "a number of tuples per second from 1e-9 to 1e9"),
        (SHARE, "a number from 0 to 1"),
        (PROCESSORS, "a whole number of processors from 1 to 4096"),
        (SEED, "a whole number from 0 to 9223372036854775807"),
        (SIZES, "a number of bytes from 0.5 to 1e12"),
    ],
)
def test_a_quantity_says_what_would_be_right(quantity: Quantity, text: str) -> None:
    assert str(quantity) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.4", "size=0.4 is out of range; write a number of bytes from 0.5 to 1e12"),
        ("nan", "size=nan is out of range"),
        ("-inf", "size=-inf is out of range"),
        ("1e999", "size=1e999 is out of range"),
        ("", "size= is not a number; write a number of bytes"),
        ("x" * 500, f"size={'x' * 40}... is not a number"),
    ],
)
def test_texts_that_are_no_such_number_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(SetupError) as refusal:
        SIZES.read(text, "size=")
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("text", ["1.5", "1e3", "9" * 5000])
def test_whole_numbers_have_no_fraction_and_no_exponent(text: str) -> None:
    with pytest.raises(SetupError, match="is not a whole number; write a whole number of processors"):
        PROCESSORS.read(text)


def is_accepted(read: object, *arguments: object) -> bool:
    try:
        read(*arguments)  # type: ignore[operator]
    except SetupError:
        return False
    return True


@given(st.floats() | st.integers() | st.floats(0.4, 0.6))
def test_documents_and_texts_have_the_same_numbers(value: float) -> None:
    expected = math.isfinite(value) and 0.5 <= value <= 1e12
    assert is_accepted(SIZES.read, repr(value)) == expected
    assert is_accepted(checked, Annotated[float, SIZES], value, "here") == expected


@pytest.mark.parametrize("value", [5e-324, 1e-31, -0.0])
def test_what_is_next_to_nothing_is_0(value: float) -> None:
    for found in (SHARE.read(repr(value)), checked(Annotated[float, SHARE], value, "here")):
        assert repr(found) == "0.0"
    assert SHARE.read("1e-29") == 1e-29


@given(
    st.none() | st.booleans() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(), st.text())
)
def test_in_documents_nothing_else_is_a_number(value: object) -> None:
    with pytest.raises(SetupError, match=r"^here: .* is wrong; write a number of bytes from 0.5 to 1e12$"):
        checked(Annotated[float, SIZES], value, "here")
