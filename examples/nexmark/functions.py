"""Functions of the NEXMark queries."""


def count_c(text: str | None) -> int:
    """How often the letter c is in a text."""
    return 0 if text is None else text.count("c")
