"""Orders of joins and drop boxes, chosen anew while queries run."""
