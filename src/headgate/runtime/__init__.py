"""The engine protocol, the one loop that drives it, and what watches it."""
