"""Eddies on Spark: tuples visit placed predicates and probes in any order, in jobs beside the ticks."""
