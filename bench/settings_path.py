"""Trace how far the settings of `alps run` travel before the first sample.

    python bench/settings_path.py [most=14]

Runs `alps run` on the samples in this process, and prints the modules of the package that have a
frame which holds the settings, as an argument or a local variable, before the first sample is
answered. Exits 1 where they are more than `most`. The model and the judge are LLMs on a loopback
server, as for them the settings have the longest way.
"""

import os
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from server import running
from words import read_words, whole

DEFAULTS = {"most": "14"}
FIRST_SAMPLE = ("engine", "evaluate")


class Trace:
    """The modules whose frames hold the settings, until the first sample."""

    def __init__(self) -> None:
        self.modules: dict[str, int] = {}
        self.over = False

    def look(self, frame: FrameType, event: str, _: Any) -> None:
        """Look at a frame when it is left: then all its variables are there."""
        if self.over or event not in ("call", "return"):
            return
        module, _, name = str(frame.f_globals.get("__name__", "")).rpartition(".")
        if (name, frame.f_code.co_name) == FIRST_SAMPLE:
            self.over = True
            sys.setprofile(None)
            open_frame: FrameType | None = frame
            while open_frame is not None:  # those that are not left yet
                self.note(open_frame)
                open_frame = open_frame.f_back
        elif module.startswith("alps"):
            self.note(frame)

    def note(self, frame: FrameType) -> None:
        """Note the module of a frame that holds the settings."""
        module = str(frame.f_globals.get("__name__", ""))
        for value in list(frame.f_locals.values()):
            if module.startswith("alps") and type(value).__name__ == "RunSettings":
                self.modules[module] = self.modules.get(module, 0) + 1
                return


def main() -> int:
    """Trace a run, print the modules, and tell whether they are few enough."""
    most = whole(read_words(sys.argv[1:], DEFAULTS), "most")
    trace = Trace()
    with tempfile.TemporaryDirectory() as folder, running(latency=0.0) as server:
        os.environ |= {"OPENAI_API_KEY": "not-needed", "ALPS_CACHE": "off"}
        words = ["run", "task=extraction", "data=samples", "limit=2", "baseline_records=0"]
        words += ["model=openai/scripted", f"api_base={server.url}"]
        words += ["judge=openai/scripted", f"judge_api_base={server.url}", "judge_check=no"]
        words += [f"out={Path(folder) / 'run'}", "max_failures=100%"]
        from alps.cli import cli

        sys.setprofile(trace.look)
        try:
            cli.main(words, standalone_mode=False)
        finally:
            sys.setprofile(None)
    for module, frames in sorted(trace.modules.items()):
        print(f"{module:32} {frames:5} frames")
    count = len(trace.modules)
    print(f"{count} modules hold the settings before the first sample (at most {most})")
    return int(count > most)


if __name__ == "__main__":
    sys.exit(main())
