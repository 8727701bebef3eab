"""Admission of queries, and join orders and drop boxes chosen while they run."""
