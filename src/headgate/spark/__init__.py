"""The engine on Spark: the only folder that imports pyspark."""
