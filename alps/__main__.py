"""Run the command with `python -m alps`."""

import os
import sys
from contextlib import suppress

# `python -m` searches the working folder first: a file in a stranger's folder would stand in for a
# library.
with suppress(OSError):  # the working folder may be gone
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]

from alps.cli import main

if __name__ == "__main__":
    main()
