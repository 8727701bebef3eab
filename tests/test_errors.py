"""Errors are one line that can be read, whatever users pass in."""

from __future__ import annotations

from headgate.errors import QueryError, SetupError, Span, known_names, nearest


def test_controls_become_blanks() -> None:
    assert str(SetupError("a\nb\x1b[31m\u2028c")) == "a b [31m c"
    text = "SELECT x"
    assert str(QueryError("a\nb", Span(text, 7, 8))) == "<cql>:1:8: a b"


def test_long_messages_keep_their_beginning_and_their_end() -> None:
    found = str(SetupError(f"file.toml: a = {'9' * 5000} is out of range; write 1"))
    assert found.startswith("file.toml: a = 999") and found.endswith("9 is out of range; write 1")
    assert " ... " in found and len(found) < 2000


def test_of_very_many_names_some_are_listed_and_the_others_counted() -> None:
    names = [f"n{number:05}" for number in range(50_000)]
    assert known_names(names).endswith("n00039, and 49,960 more")
    assert (known_names(["b", "a"]), known_names([])) == ("a, b", "none")
    assert nearest("n00007x", names) == "did you mean n00007? "
