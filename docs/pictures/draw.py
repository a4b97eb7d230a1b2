"""Draw the pictures of README and docs: python docs/pictures/draw.py [FOLDER], or make pictures.

`run.svg` is a run as a terminal of 80 columns shows it: the command is started in one, and what it
writes is kept. The others are Chromium's views of pages: the leaderboard, built from the
submissions that are in the repository, and the report of a run; each light
and dark. FOLDER is where they are put, this folder if it is not given.
"""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COMMAND = "alps run task=extraction model=rules data=samples"
COLUMNS, ROWS = 80, 60
ERASED = re.compile(r".*\x1b\[2K", re.DOTALL)
"""All that the progress wrote, up to the place where its last line is taken away."""
THEME = TerminalTheme(
    (24, 28, 36),
    (216, 222, 233),
    [
        *((59, 66, 82), (224, 108, 117), (152, 195, 121), (229, 192, 123)),
        *((97, 175, 239), (198, 120, 221), (86, 182, 194), (171, 178, 191)),
    ],
)
PICTURE = """<svg viewBox="0 0 {width} {height}" role="img" aria-label="A run in a terminal" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ display: none }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
RUNS = (
    *(
        ("run", "task=extraction", f"model={model}", f"out={model}")
        for model in ("rules", "oracle")
    ),
    ("report", "rules", "out=report.html"),
    ("leaderboard", "build", "out=site"),
)
PAGES = {
    "leaderboard": "site/index.html",
    "report": "report.html",
}
VIEWS = {
    "light": {"viewport": {"width": 1200, "height": 1075}},
    "dark": {"viewport": {"width": 1200, "height": 1075}, "color_scheme": "dark"},
}
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)


def seen(words: list[str], folder: Path) -> str:
    """Run the command in `folder`, in a terminal of its own.

    Return what is left on the screen, with its colours.

    Raises:
        SystemExit: If the command fails.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    kept = {"TERM": "xterm-256color", "ALPS_CACHE": "off", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, **kept},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        close_fds=True,
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # what Linux says when nobody holds the other side any more
            break
        if not part:
            break
        written += part
    os.close(ours)
    text = ERASED.sub("", written.decode("utf-8").replace("\r\n", "\n"))
    if process.wait():
        sys.exit(f"{' '.join(words)}: exit {process.returncode}\n{text}")
    return text


def terminal(folder: Path) -> str:
    """Return the run as a picture: the command behind its prompt, and what it writes."""
    text = seen([sys.executable, "-m", *COMMAND.split()], folder)
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "green"), (COMMAND, "bold")), "", sep="\n")
    for line in text.rstrip().split("\n"):
        shown = Text.from_ansi(line)
        shown.rstrip()
        console.print(shown, no_wrap=True)
    return console.export_svg(title=COMMAND, theme=THEME, code_format=PICTURE, unique_id="run")


def pages(folder: Path, out: Path) -> None:
    """Make the pages in `folder`, and write a picture of each in each view into `out`."""
    from playwright.sync_api import sync_playwright

    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        sys.exit("chromium is not installed: the pictures of the pages are its views; install it.")
    for words in RUNS:
        subprocess.run([sys.executable, "-m", "alps", *words], cwd=folder, check=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(QUIET))
        for name, address in PAGES.items():
            for view, settings in VIEWS.items():
                with browser.new_context(**settings) as context:
                    page = context.new_page()
                    page.goto(_found(folder, address))
                    page.wait_for_timeout(1_000)  # for the record that a page loads by itself
                    page.screenshot(path=out / f"{name}-{view}.png")
        browser.close()


def _found(folder: Path, address: str) -> str:
    """Return the address of the one page that a pattern names: some names have a hash."""
    pattern, _, part = address.partition("#")
    (page,) = folder.glob(pattern)
    return page.as_uri() + (f"#{part}" if part else "")


def main() -> None:
    """Draw all of them."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        (out / "run.svg").write_text(terminal(Path(name)), encoding="utf-8")
        pages(Path(name).resolve(), out.resolve())


if __name__ == "__main__":
    main()
