"""Join order and drop boxes as one decision: plans, their cost, what to keep of each stream."""
