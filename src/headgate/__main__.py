"""``python -m headgate`` is the command ``headgate``."""

from headgate.cli.app import main

if __name__ == "__main__":
    main()
