"""Spark without compiled code: for a handful of rows, compiling a plan costs more than running it."""

from __future__ import annotations

INTERPRETATION = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
