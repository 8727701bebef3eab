"""CQL, the query language: text in, typed statements out.

``parse`` is the one way in. ``statement`` holds what comes out, ``duration`` and ``size`` read the
times and byte counts that settings and command-line options share with the language.
"""

from headgate.cql.parser import parse
from headgate.cql.statement import (
    AggregateCall,
    ColumnDefinition,
    ColumnReference,
    CreateQuery,
    CreateRelation,
    CreateStream,
    FromItem,
    Name,
    Now,
    PartitionedRows,
    Range,
    Rows,
    ScalarExpression,
    Select,
    SelectItem,
    Setting,
    SinkClause,
    Star,
    Statement,
    Unbounded,
    Window,
)

__all__ = [
    "AggregateCall",
    "ColumnDefinition",
    "ColumnReference",
    "CreateQuery",
    "CreateRelation",
    "CreateStream",
    "FromItem",
    "Name",
    "Now",
    "PartitionedRows",
    "Range",
    "Rows",
    "ScalarExpression",
    "Select",
    "SelectItem",
    "Setting",
    "SinkClause",
    "Star",
    "Statement",
    "Unbounded",
    "Window",
    "parse",
]
