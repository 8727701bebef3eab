"""Sessions: what is declared, plans, runs and their handles."""
