"""Every command of the documentation is run in an empty folder, and must print what the
documentation shows.

A line `$ …` of a console block is a command, what follows it is its output: every line of it must
be printed, in this order. `…` stands for anything, and `# exits 2` for the exit code. Every line of
a block of `sh` is a command: it is there to be pasted. A block with a `title` is a file to be
written.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from alps.ext.calibration.settings import CalibrateSettings, DrawSettings
from alps.ext.datasets.settings import AuditSettings, PoolSettings
from alps.ext.importers.settings import ImportSettings
from alps.ext.judging.settings import JudgesSettings
from alps.ext.memory.settings import BesideSettings, DiagnoseSettings
from alps.ext.people.settings import AgreementSettings, AnnotateSettings, LabelExportSettings
from alps.ext.personas.settings import PersonaSettings
from alps.ext.sweeps.plan import SweepSettings
from alps.ext.view.settings import ViewSettings
from alps.leaderboard.settings import (
    RescoreSettings,
    ServeSettings,
    SiteSettings,
    SubmitSettings,
    VerifySettings,
)
from alps.settings import CompareSettings, RunSettings
from tests.conftest import ROOT
from tests.endtoend import environment, install
from tests.few import few
from tests.loopback import Answer, LoopbackServer, serve

DOCS = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *DOCS]
WITHOUT_COMMANDS = {"architecture.md"}
"""Pages without a command."""
RUN = [document for document in DOCUMENTS if document.name not in WITHOUT_COMMANDS]
SETTINGS = (
    *(RunSettings, AuditSettings, PoolSettings, PersonaSettings, DrawSettings),
    *(AnnotateSettings, LabelExportSettings),
    *(AgreementSettings, CalibrateSettings, JudgesSettings),
    *(CompareSettings, BesideSettings, DiagnoseSettings, SweepSettings),
    *(SubmitSettings, VerifySettings, RescoreSettings, SiteSettings, ServeSettings),
    *(ImportSettings, ViewSettings, SweepSettings),
)
LONG = ("memory-systems.md", "scale.md", "your-memory.md")
"""Pages of runs that take long; README.md and tests of their extensions have the same commands."""
LEFT_TO_CI = ("make ", "python3 -m venv ")
"""`.ci/run` runs these, from a clean clone on a bare machine: they install."""

BLOCK = re.compile(r"^```([^`\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
EXPORT = re.compile(r"export (\w+)=(.*)")
EXITS = re.compile(r"# exits (\d+)")
FIGURE = re.compile(r"\.\d{3}")
ADDRESS = re.compile(r"http://(?:localhost|127\.0\.0\.1):\d+/v1")
SECONDS = 300
AT_ONCE = 4

SAID = {
    "garlic": ("narrower", "the prediction adds romesco"),
    "grams": ("same", "both assert grams, not cups"),
    "sister": ("broader", "a sister, but neither her diet nor her visit"),
    "walnuts": ("conflicting", "walnuts there, cashews and explicitly not walnuts here"),
}
"""How the scripted judge relates two memories that both contain the word, and why."""
UNSUPPORTED = {"walnuts": "the user takes it back: «its CASHEWS im allergic to»"}
EXTRACTED = ("Wants amounts in grams", "Allergic to walnuts", "Has a sister")
NOT_MET = {
    "what anybody would": "no part of it depends on the fact",
    "made a note of it": "it claims to use the memory; nothing follows from it",
}
"""What the scripted judge finds not met, by words of the response, and why; everything else is met.

Words that its instructions quote are not held against a response, so that another wording may
change its mind.
"""
FELT = {
    "which two cups": (
        "it sees what the case stands for, and gives a step that can be borne",
        5,
        4,
        5,
    ),
    "Stay strong": ("stock empathy, which would fit anybody", 2, 3, 2),
    "both at once": ("the mixed feeling is named; nothing to do follows", 4, 3, 3),
}
"""How the scripted judge rates a response that has the words: resonation, expression and reception.
"""


@dataclass
class Command:
    """A command, what the document shows of its output, and its exit code."""

    text: str
    shown: list[str] = field(default_factory=list)
    exits: int = 0


@dataclass(frozen=True)
class Titled:
    """A file that the reader is told to write."""

    name: str
    text: str


@dataclass(frozen=True)
class Quoted:
    """A payload or a reply that the document says was exchanged with the judge."""

    kind: str
    text: str


class Script:
    """The model and the judge of the documentation; keeps every payload and reply."""

    def __init__(self) -> None:
        self.exchanged: dict[str, list[str]] = {"payload": [], "reply": []}

    def __call__(self, body: dict[str, Any]) -> Answer:
        asked = body["messages"][-1]["content"]
        payload = json.loads(asked.rpartition("\n\n")[2])
        answer = answer_to(payload, told=body["messages"][0]["content"])
        text = json.dumps(answer, ensure_ascii=False)
        self.exchanged["payload"].append(json.dumps(payload, ensure_ascii=False))
        self.exchanged["reply"].append(text)
        return Answer(text)


def answer_to(payload: dict[str, Any], *, told: str) -> dict[str, Any]:
    """Answer as the judge that was `told` so, or as the model of an extraction."""
    judged = {"match": match, "support": support, "rubric": partial(rate, told=told)}
    return judged.get(payload.get("kind", ""), extract)(payload)


def rate(payload: dict[str, Any], *, told: str) -> dict[str, Any]:
    response = payload["response"]
    if payload["rubric"] == "ei":
        found = (felt for words, felt in FELT.items() if words in response)
        felt = next(found, ("decent, impersonal", 3, 3, 3))
        return dict(zip(("reason", "resonation", "expression", "reception"), felt, strict=True))
    held = {words: reason for words, reason in NOT_MET.items() if words not in told}
    against = next((reason for words, reason in held.items() if words in response), None)
    reason = against or "it follows from the memory"
    return {"reason": reason, "verdict": "not_met" if against else "met"}


def extract(conversation: dict[str, Any]) -> dict[str, Any]:
    items = [{"memory_id": f"m{n}", "value": said} for n, said in enumerate(EXTRACTED, start=1)]
    return {"memory_items": items}


def match(payload: dict[str, Any]) -> dict[str, Any]:
    pairs = [
        {"reason": reason, "gold": gold["id"], "predicted": predicted["id"], "relation": relation}
        for gold in payload["gold"]
        for predicted in payload["predicted"]
        for word, (relation, reason) in SAID.items()
        if word in gold["value"] and word in predicted["value"]
    ]
    return {"pairs": pairs}


def support(payload: dict[str, Any]) -> dict[str, Any]:
    items = []
    for item in payload["items"]:
        found = (reason for word, reason in UNSUPPORTED.items() if word in item["value"])
        against = next(found, None)
        said = "unsupported" if against else "supported"
        items.append({"reason": against or "the user says so", "id": item["id"], "support": said})
    return {"items": items}


def steps(document: Path) -> Iterator[Command | Titled | Quoted]:
    for info, text in BLOCK.findall(document.read_text(encoding="utf-8")):
        language, _, attributes = info.partition(" ")
        assert language not in ("bash", "shell", "text"), (
            f"{document.name}: write console or sh, not {language}"
        )
        if title := TITLE.search(attributes):
            yield Titled(title[1], text)
        elif attributes in ("payload", "reply"):
            yield Quoted(attributes, text)
        elif language == "sh":
            yield from (Command(line.partition("    #")[0]) for line in text.splitlines())
        elif language == "console":
            yield from commands(text, document.name)


def commands(block: str, document: str) -> list[Command]:
    found: list[Command] = []
    for line in block.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            found.append(Command(line.removeprefix("$ ")))
            continue
        assert found, (
            f"{document}: this line stands before any command; write «$ » before a command: {line}"
        )
        if exits := EXITS.fullmatch(line):
            found[-1].exits = int(exits[1])
        else:
            found[-1].shown.append(line)
    return found


def folded(line: str) -> str:
    """Fold white space, and the rules under headings: their length depends on the figures in a
    table.
    """
    return " ".join(re.sub("─+", "─", line).split())


def not_printed(shown: list[str], printed: str) -> str | None:
    """Return the first line of `shown` that does not follow in `printed`."""
    lines = map(folded, printed.splitlines())
    for line in filter(None, map(folded, shown)):
        pattern = ".*".join(map(re.escape, line.split("…")))
        if line != "…" and not any(re.fullmatch(pattern, other) for other in lines):
            return line
    return None


class Reader:
    """Somebody who does what a document says, in an empty folder."""

    def __init__(self, folder: Path, commands: Path, server: LoopbackServer) -> None:
        self.folder, self.server = folder, server
        folder.mkdir()
        address = dict.fromkeys(("OPENAI_API_BASE", "OPENAI_BASE_URL"), server.url)
        own = {"XDG_CONFIG_HOME": str(folder / "config"), "PYTHONDONTWRITEBYTECODE": "1"}
        variables = environment(folder.with_name("alps"), OPENAI_API_KEY="test", **address, **own)
        variables["PATH"] = f"{commands}{os.pathsep}{variables['PATH']}"
        variables.pop("ALPS_PRICES", None)
        self.environment = variables

    def write(self, file: Titled) -> None:
        path = self.folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")

    def follow(self, command: Command) -> None:
        if export := EXPORT.fullmatch(command.text):
            self._export(*export.groups())
        else:
            self._run(command)

    def _export(self, name: str, value: str) -> None:
        if "…" in value:  # the reader's own key: there is one already
            assert name in self.environment
            return
        known = {**self.environment, "PWD": str(self.folder)}
        self.environment[name] = re.sub(r"\$(\w+)", lambda found: known[found[1]], value.strip('"'))

    def _run(self, command: Command) -> None:
        process = subprocess.Popen(
            ["sh", "-c", ADDRESS.sub(self.server.url, command.text)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        printed = f"{output}{errors}"
        assert process.returncode == command.exits, f"$ {command.text}\n{printed}"
        missing = not_printed(command.shown, printed)
        assert missing is None, (
            f"$ {command.text}\nshown, but not printed in this place: {missing}\n{printed}"
        )


def read(document: Path, folder: Path, commands: Path) -> int:
    """Do what a document says in `folder`, with the installed `commands`, and check what comes of
    it; return how many commands it has.
    """
    script, quoted, run = Script(), [], 0
    with serve(script) as server:
        reader = Reader(folder, commands, server)
        for step in steps(document):
            if isinstance(step, Titled):
                reader.write(step)
            elif isinstance(step, Quoted):
                quoted.append(step)
            elif not step.text.startswith(LEFT_TO_CI):
                reader.follow(step)
                run += 1
    for quote in quoted:
        exchanged = ["".join(text.split()) for text in script.exchanged[quote.kind]]
        assert "".join(quote.text.split()) in exchanged, (
            f"no such {quote.kind} was exchanged:\n{quote.text}"
        )
    return run


@pytest.fixture(scope="module")
def readers(request, tmp_path_factory):
    """Read the selected documents, several at once: most time goes into starting commands."""
    selected = {
        item.callspec.params["document"]
        for item in request.session.items
        if item.path == request.path and "readers" in item.fixturenames
    }
    commands = install(tmp_path_factory.mktemp("commands"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = {}
        for document in RUN:
            if document in selected:
                folder = tmp_path_factory.mktemp(document.stem) / "reader"
                begun[document] = pool.submit(read, document, folder, commands)
        yield begun


@pytest.mark.skipif(os.name != "posix", reason="the documents speak to a POSIX shell")
@pytest.mark.parametrize(
    "document",
    few(
        {document.name: document for document in RUN},
        plain={document.name for document in RUN} - {*LONG},
    ),
)
@pytest.mark.release
def test_what_a_document_tells_to_do_gives_what_it_shows(document, readers):
    assert readers[document].result(), "the document has no command"


def as_in_a_clone(folder: Path, commands: Path) -> dict[str, str]:
    """Put `.venv/bin` into `folder` as `make demo` does, and return an environment that has no
    `alps` on its PATH.
    """
    bin_folder = folder / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    for name in ("alps", "python"):
        (bin_folder / name).symlink_to(commands / name)
    variables, own = environment(folder), str(Path(sys.executable).parent)
    others = [part for part in variables["PATH"].split(os.pathsep) if part != own]
    return {**variables, "PATH": os.pathsep.join(others)}


README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [text for info, text in BLOCK.findall(README) if info == "sh"]


@pytest.mark.release
@pytest.mark.skipif(os.name != "posix", reason="the documents speak to a POSIX shell")
@pytest.mark.parametrize("block", few(BLOCKS, plain={0}))
def test_a_block_of_the_readme_works_as_pasted_after_make_demo(block, tmp_path):
    """Without anything else on the PATH, each in a shell of its own; its figures are true."""
    for step in steps(ROOT / "README.md"):
        if isinstance(step, Titled):
            (tmp_path / step.name).write_text(step.text, encoding="utf-8")
    commands = tmp_path / "commands"
    commands.mkdir()
    variables = as_in_a_clone(tmp_path, install(commands))
    pasted = "\n".join(line for line in block.splitlines() if not line.startswith(LEFT_TO_CI))
    done = subprocess.run(
        ["sh", "-e"],
        input=pasted,
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    comments = "".join(line.partition("    #")[2] for line in block.splitlines())
    assert [figure for figure in FIGURE.findall(comments) if figure not in done.stdout] == []


@pytest.mark.parametrize("document", RUN[1:], ids=lambda document: document.name)
def test_a_page_says_first_how_the_command_is_found(document):
    """Whoever begins with a page other than the first has `alps` in .venv/bin alone."""
    found = (step for step in steps(document) if isinstance(step, Command))
    first = next(step for step in found if not step.text.startswith(LEFT_TO_CI))
    assert first.text == 'export PATH="$PWD/.venv/bin:$PATH"'


def test_every_setting_is_explained_and_no_other():
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCS)
    named = set(re.findall(r"(?:`|^  )([a-z_]+)(?==|`)", text, re.MULTILINE))
    assert set(RunSettings.model_fields) - named == set()
    known = {name for settings in SETTINGS for name in settings.model_fields}
    assert set(re.findall(r"`([a-z_]+)=", text)) - known == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_between_documents_lead_somewhere_and_no_line_is_longer_than_the_code(document):
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [target for target in targets if not (document.parent / target).exists()] == []
    assert [line for line in text.splitlines() if len(line) > 120] == []


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        pytest.param(["a  b"], "a b\n", None, id="white space"),
        pytest.param(["F1 .5"], "F1 .6\n", "F1 .5", id="another figure"),
        pytest.param(["F1 …"], "F1 .6\n", None, id="a figure left open"),
        pytest.param(["one", "…", "two"], "one\nbetween\ntwo\n", None, id="lines left out"),
        pytest.param(["two", "one"], "one\ntwo\n", "one", id="another order"),
        pytest.param(["one"], "one more\n", "one", id="a line cut short"),
    ],
)
def test_shown_lines_are_looked_for_in_their_order(shown, printed, missing):
    assert not_printed(shown, printed) == missing
