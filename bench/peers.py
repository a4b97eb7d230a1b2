"""Run alps against software that nobody here wrote, and print what became of each record.

    python bench/peers.py aimock [records=3] [folder=DIR]
    python bench/peers.py litellm [records=3] [folder=DIR]

aimock (npm, MIT) speaks the wire formats of seven providers and checks the key of each request.
litellm is the proxy server of LiteLLM (MIT), with aimock as the provider behind it. They are
installed into `folder=`, a temporary one unless it is given, and each route is one `alps run` with
model and judge on it. Inspect AI is a peer of bench/outages.py.

Exits 1 where a record was not both answered and judged, and 2 where a peer can't be started.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from socket import create_server

from processes import environment
from words import read_words, version, whole

AIMOCK = "@copilotkit/aimock@1.43.0"
KEY = "sk-a-key-of-the-bench"
STARTS_WITHIN = 120.0
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


# What the proxy reads from this file: one model, behind which aimock is, and the key of its users
PROXY = f"""
model_list:
  - model_name: gpt-4.1-mini
    litellm_params: {{model: openai/gpt-4.1-mini, api_base: os.environ/BEHIND, api_key: {KEY}}}
litellm_settings: {{telemetry: false}}
general_settings: {{master_key: {KEY}}}
"""


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
    wanted = AIMOCK.rpartition("@")[2]
    if package.is_file() and json.loads(package.read_text())["version"] == wanted:
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


def install_litellm(folder: Path) -> Path:
    """Install the proxy of the LiteLLM that alps uses below `folder`; return its command.

    Raises:
        PeerAbsent: If pip can't install it.
    """
    command = folder / "proxy" / "bin" / "litellm"
    if not command.is_file():
        wanted = f"litellm[proxy]=={version(sys.executable, 'litellm').split()[-1]}"
        pip = [str(command.with_name("python")), "-m", "pip", "install", "--quiet", wanted]
        for words in ([sys.executable, "-m", "venv", str(folder / "proxy")], pip):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                said = " ".join(done.stderr.split())[-200:]
                raise PeerAbsent(f"pip can't install {wanted}: {said}")
    return command


@contextmanager
def litellm(command: Path, behind: str, scratch: Path) -> Iterator[str]:
    """Start the proxy before the provider at the address `behind`; yields its own address.

    Raises:
        PeerAbsent: If it does not start.
    """
    config = scratch / "proxy.yaml"
    config.write_text(PROXY, encoding="utf-8")
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    words = [str(command), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    # The prices that come with it, and no question to anybody for newer ones.
    variables = {"BEHIND": f"{behind}/v1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with (scratch / "proxy.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | variables)
    try:
        _wait_for(f"{url}/health/liveliness", process)
        yield url
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + STARTS_WITHIN
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise PeerAbsent("the proxy of LiteLLM does not start")


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


def of_litellm(words: Mapping[str, str]) -> Iterator[tuple[str, Ran]]:
    """Yield what became of the records that went through the proxy of LiteLLM to aimock."""
    records = whole(words, "records")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        place = Path(words["folder"] or scratch).resolve()
        command, provider = install_litellm(place), aimock(install_aimock(place))
        with provider as behind, litellm(command, behind, scratch) as url:
            yield "LiteLLM's proxy", run_on(ROUTES["openai"], url, scratch, records=records)


PEERS = {"aimock": of_aimock, "litellm": of_litellm}


def main() -> None:
    """Run one of the peers, and print a row a route."""
    name, *arguments = sys.argv[1:] or [""]
    if name not in PEERS:
        sys.exit(f"expected {' or '.join(PEERS)}, and not '{name}'.")
    words = read_words(arguments, {"records": "3", "folder": ""})
    failed = 0
    try:
        for route, found in PEERS[name](words):
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
