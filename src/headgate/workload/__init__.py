"""Arrival processes (one file each) and the generators that turn arrivals into tuples."""
