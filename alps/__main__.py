"""Run the command with `python -m alps`."""

import sys
from pathlib import Path

# `python -m` searches the working folder first: a file in a stranger's folder would stand in for a library.
if not sys.flags.safe_path and Path(sys.path[0]) == Path.cwd():
    del sys.path[0]

from alps.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
