"""The engine on Spark: the only folder that imports pyspark."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # for type hints of folders that do not import PySpark
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.types import DataType as DataType
