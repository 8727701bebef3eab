"""Spark without compiled code: for a handful of rows, compiling a plan costs more than running it."""

from __future__ import annotations

INTERPRETATION = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILATION = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
# settings on the command line would make Headgate start Java through spark-submit
INTERPRETING_JAVA = " ".join(f"-D{name}={value}" for name, value in INTERPRETATION.items())
