"""Run the command with `python -m alps`."""

from alps.cli import main

if __name__ == "__main__":
    main()
