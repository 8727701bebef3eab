"""CQL, the query language: ``parse`` turns text into the typed statements of ``statement``."""

from headgate.cql.parser import parse, parse_with_texts

__all__ = ["parse", "parse_with_texts"]
