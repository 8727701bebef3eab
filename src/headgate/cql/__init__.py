"""CQL, the query language: ``parse`` turns text into the typed statements of ``statement``."""

from headgate.cql.parser import parse

__all__ = ["parse"]
