"""Tables for terminals, plots for files."""
