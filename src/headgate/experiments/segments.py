"""Path capacity and segments: the worked example, and 16 queries over self-similar streams."""
