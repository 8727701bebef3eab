"""Rules of the optimizer: one file = one rule = one function = one case file."""
