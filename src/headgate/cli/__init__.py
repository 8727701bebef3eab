"""The command line: ``commands`` has the options of every command, ``app`` registers them."""
