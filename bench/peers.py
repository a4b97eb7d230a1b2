"""Run alps against software that nobody here wrote, and print what became of each record.

    python bench/peers.py aimock [records=3] [folder=DIR]
    python bench/peers.py install folder=DIR

aimock (npm, MIT) speaks the wire formats of seven providers and checks the key of each request. It
is installed by npm into `folder=`, a temporary one unless it is given, and each route is one `alps
run` with model and judge on it. Inspect AI is a peer of bench/outages.py.

Exits 1 where a record was not both answered and judged, and 2 where aimock can't be started.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which

from processes import environment
from words import read_words, whole

AIMOCK = "@copilotkit/aimock@1.43.0"
KEY = "a-key-of-the-bench"
HERE = Path(__file__).resolve().parent


class PeerAbsent(Exception):
    """A peer can't be started here; says why."""


@dataclass(frozen=True)
class Route:
    """One provider as the peer serves it.

    Attributes:
        model: What model= and judge= are.
        path: What stands behind the address of the peer in api_base=.
        variables: What else the provider's client reads from the environment.
    """

    model: str
    path: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


ROUTES = {
    "openai": Route("openai/gpt-4.1-mini", "/v1", {"OPENAI_API_KEY": KEY}),
    "azure": Route(
        "azure/gpt-4.1-mini", "", {"AZURE_API_KEY": KEY, "AZURE_API_VERSION": "2024-10-21"}
    ),
    "anthropic": Route("anthropic/claude-sonnet-4-5", "", {"ANTHROPIC_API_KEY": KEY}),
    "anthropic, older": Route("anthropic/claude-3-haiku-20240307", "", {"ANTHROPIC_API_KEY": KEY}),
    "gemini": Route("gemini/gemini-2.5-flash", "/v1beta", {"GEMINI_API_KEY": KEY}),
    "bedrock": Route(
        "bedrock/anthropic.claude-3-haiku-20240307-v1:0",
        "",
        {"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_REGION_NAME": "us-east-1"},
    ),
    "ollama": Route("ollama_chat/llama3.1", "", {"OLLAMA_API_KEY": KEY}),
    "openrouter": Route("openrouter/openai/gpt-4.1-mini", "/api/v1", {"OPENROUTER_API_KEY": KEY}),
}


@dataclass(frozen=True)
class Ran:
    """What became of the records of a run, by outcome.

    The requests it took, and what it printed as errors.
    """

    records: int
    outcomes: Mapping[str, int]
    requests: int
    said: str

    @property
    def failed(self) -> int:
        """How many records were not both answered and judged."""
        return self.records - self.outcomes.get("ok", 0)


def install_aimock(folder: Path) -> Path:
    """Install aimock below `folder`, unless it is there, and return `folder`.

    Raises:
        PeerAbsent: If npm or node is not here, or npm can't install it.
    """
    if missing := [name for name in ("npm", "node") if which(name) is None]:
        raise PeerAbsent(f"{missing[0]} is not installed")
    package = folder / "node_modules" / AIMOCK.rpartition("@")[0] / "package.json"
    if (
        package.is_file()
        and json.loads(package.read_text())["version"] == AIMOCK.rpartition("@")[2]
    ):
        return folder
    quiet = ["--no-audit", "--no-fund", "--no-save"]
    words = ["npm", "install", *quiet, "--prefix", str(folder), AIMOCK]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerAbsent(f"npm can't install {AIMOCK}: {' '.join(done.stderr.split())[-200:]}")
    return folder


@contextmanager
def aimock(folder: Path) -> Iterator[str]:
    """Start aimock out of `folder` as a process of its own; yields its address.

    Raises:
        PeerAbsent: If it does not start.
    """
    pipe = subprocess.PIPE
    words = ["node", str(HERE / "peers_aimock.mjs"), str(folder), KEY]
    process = subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        if not (url := process.stdout.readline().strip()):
            raise PeerAbsent("aimock does not start")
        yield url
    finally:
        process.terminate()
        process.communicate()


def words_on(route: Route, url: str, *, records: int) -> list[str]:
    """Return the command of extraction, answered and judged over a route of the peer at `url`."""
    base, limit = f"{url}{route.path}", f"limit={records}"
    asked = [f"model={route.model}", f"api_base={base}", "judge_check=no"]
    asked += [f"judge={route.model}", f"judge_api_base={base}"]
    return ["run", "task=extraction", limit, "out=out", *asked]


def run_on(route: Route, url: str, folder: Path, *, records: int) -> Ran:
    """Run extraction on the samples over a route of the peer at `url`."""
    done = subprocess.run(
        [sys.executable, "-m", "alps", *words_on(route, url, records=records)],
        cwd=folder,
        env=environment(folder, **route.variables),
        capture_output=True,
        text=True,
        check=False,
    )
    return ran(folder / "out", records, done.stderr)


def ran(out: Path, records: int, said: str) -> Ran:
    """Read what became of the records of a run; nothing did where it never began."""
    if not (out / "summary.json").is_file():
        return Ran(records, {"refused to run": records}, 0, said)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    track = summary["tracks"]["task1"]
    judged = {f"judge {kind}": count for kind, count in track["failed_judgements"].items()}
    failed = {**track["failed_predictions"], **judged}
    outcomes = {"ok": track["n"] - sum(failed.values()), **failed}
    return Ran(track["n"], outcomes, summary["calls"]["http"], said)


def line(name: str, found: Ran) -> str:
    """Return the row of a route."""
    counts = ", ".join(f"{count} {kind}" for kind, count in found.outcomes.items() if count)
    return f"{name:18} {found.records:4} records  {found.requests:4} requests  {counts}"


def of_aimock(words: Mapping[str, str]) -> Iterator[tuple[str, Ran]]:
    """Yield what became of the records on each route of aimock."""
    records = whole(words, "records")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        place = install_aimock(Path(words["folder"] or scratch).resolve())
        with aimock(place) as url:
            for number, (route_name, route) in enumerate(ROUTES.items()):
                folder = scratch / f"run{number}"
                folder.mkdir()
                yield route_name, run_on(route, url, folder, records=records)


def main() -> None:
    """Run aimock, and print a row a route."""
    name, *arguments = sys.argv[1:] or [""]
    if name not in ("aimock", "install"):
        sys.exit(f"expected aimock, or install, and not '{name}'.")
    words = read_words(arguments, {"records": "3", "folder": ""})
    failed = 0
    try:
        if name == "install":
            install_aimock(Path(words["folder"]).resolve())
            return
        for route, found in of_aimock(words):
            failed += found.failed
            print(line(route, found), flush=True)
            if found.failed and found.said:
                print(f"  {found.said.strip()[-300:]}")
    except PeerAbsent as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
