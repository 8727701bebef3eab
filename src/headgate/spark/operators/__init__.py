"""Operators on Spark: one class per kind."""
