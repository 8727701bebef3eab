"""Tables for the screen, plots, and the display of a run."""
