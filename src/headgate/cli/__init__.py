"""The command line: one file a command, ``app`` brings them together."""
