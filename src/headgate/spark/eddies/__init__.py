"""Eddies on Spark: tuples visit placed predicates in any order, in jobs beside the ticks."""
