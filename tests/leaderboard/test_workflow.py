"""What runs on a pull request: the workflow gives a stranger nothing, and its script takes or
refuses what was sent.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from alps.leaderboard.packing import CHECKLIST as PACKED
from tests.conftest import ROOT
from tests.endtoend import edit_json, environment, install
from tests.few import few
from tests.submissions import SLUG, changed, forge, forge_bytes, write_review

SCRIPT = ROOT / ".ci" / "verify-submissions"
WORKFLOW = ROOT / ".github" / "workflows" / "verify.yml"
CHECKLIST = ROOT / ".github" / "pull_request_template.md"
SUBMISSIONS = Path("leaderboard", "submissions")
NOBODY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"} | {
    f"GIT_{role}_{part}": f"nobody{at}"
    for role in ("AUTHOR", "COMMITTER")
    for part, at in (("NAME", ""), ("EMAIL", "@"))
}
ANYTHING_ELSE = re.compile(r"\$\{\{(?! github\.base_ref \}\})")

pytestmark = pytest.mark.skipif(
    not SCRIPT.parent.is_dir(), reason="a source distribution has no workflow"
)
needs_bash = pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("git")), reason="needs bash and git"
)


class Desk:
    """A maintainer's: the checkout of the base, and what somebody wants to merge into it."""

    def __init__(self, folder: Path, submission: Path) -> None:
        self.folder, self.submission = folder, submission
        self.base, self.head = folder / "base", folder / "head"
        self.environment = environment(folder, **NOBODY)
        (folder / "bin").mkdir(parents=True)
        commands = install(folder / "bin")
        self.environment["PATH"] = f"{commands}{os.pathsep}{self.environment['PATH']}"
        self.git(folder, "init", "--quiet", "--initial-branch=main", "base")
        self.commit(self.base, lambda: (self.base / "README.md").write_text("a suite\n"))

    def git(self, place: Path, *words: str) -> None:
        done = self.started(place, "git", *words)
        assert done.returncode == 0, done.stderr

    def commit(self, place: Path, edit: Callable[[], object]) -> None:
        edit()
        self.git(place, "add", "--all", "--force")
        self.git(place, "commit", "--quiet", "--message=a change")

    def add(self, slug: str = SLUG) -> Path:
        """Put a submission into the change; return its folder there."""
        return Path(shutil.copytree(self.submission, self.head / SUBMISSIONS / slug))

    def publish(self) -> None:
        """Let the base hold the submission already."""
        there = self.base / SUBMISSIONS / SLUG
        self.commit(self.base, lambda: shutil.copytree(self.submission, there))

    def better(self) -> None:
        """Let others change the base meanwhile."""
        self.commit(self.base, lambda: (self.base / "README.md").write_text("a better suite\n"))

    def plant(self, text: str, *names: str) -> None:
        """Write a program under some names into the change."""
        for name in names:
            path = self.head / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def change(self, edit: Callable[[], object]) -> None:
        """Make the checkout of a change, merged with the base as it is now."""
        self.git(self.folder, "clone", "--quiet", "base", "head")
        self.git(self.head, "checkout", "--quiet", "-b", "change")
        self.commit(self.head, edit)
        self.git(self.head, "checkout", "--quiet", "main")
        self.git(self.head, "merge", "--quiet", "--no-ff", "--message=merged", "change")

    def verify(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the script as the workflow does, or with a maintainer's words."""
        script = ("bash", str(SCRIPT), "base", "head")
        return self.started(self.folder, *script, *words, **variables)

    def second_look(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the script of a maintainer in the checkout of the base."""
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        own = {"ALPS_PYTHON": sys.executable, "TMPDIR": str(scratch)}
        return self.started(self.base, "bash", str(self.base / ".ci/second-look"), *words, **own)

    def started(self, place: Path, *words: str, **own: str) -> subprocess.CompletedProcess[str]:
        env = {**self.environment, **own}
        return subprocess.run(
            words, cwd=place, env=env, capture_output=True, text=True, check=False
        )


@pytest.fixture
def desk(tmp_path: Path, thumb: Path) -> Desk:
    return Desk(tmp_path / "desk", thumb)


def said_by(desk: Desk, *words: str, code: int = 1) -> str:
    """Run the script as the workflow does; return what it printed, without line breaks."""
    done = desk.verify(*words)
    assert done.returncode == code, (done.stdout, done.stderr)
    return " ".join((done.stdout + done.stderr).split())


@needs_bash
def test_a_submission_passes_and_what_others_merged_since_is_not_held_against_it(desk):
    desk.change(desk.add)
    desk.better()
    desk.git(desk.head, "fetch", "--quiet", "origin")
    done = desk.verify(GITHUB_ACTIONS="true")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "format-checked: the scores follow from the predictions and verdicts" in done.stdout
    assert "4 changed files, compared with" in done.stdout
    lines = done.stdout.splitlines()
    # Else a runner would take what is printed for its own commands.
    word = lines[0].removeprefix("::stop-commands::")
    assert re.fullmatch(r"[0-9a-f]{32}", word)
    assert lines[-2:] == ["1 changed, 0 refused.", f"::{word}::"]


@needs_bash
def test_a_changed_digit_is_refused_and_named(desk: Desk) -> None:
    f1 = "tracks.task1.scores.f1.value"
    desk.change(lambda: edit_json(desk.add() / "submission.json", changed(f1, 0.9)))
    told = said_by(desk)
    assert f"{f1}: the card has 0.9, but alps recomputed 0.0692" in told
    assert told.endswith("1 changed, 1 refused.")


@needs_bash
def test_a_change_beside_the_submission_is_refused_and_none_of_its_code_is_run(desk: Desk) -> None:
    was_run = desk.folder / "was-run"

    def change_more():
        desk.add()
        code = f"#!{sys.executable}\nopen({str(was_run)!r}, 'w')\n"
        package = ("alps/__init__.py", "alps/__main__.py", "sitecustomize.py")
        desk.plant(code, ".ci/verify-submissions", *package, "bin/alps")

    desk.change(change_more)
    install(desk.folder / "bin", cold=True)  # an interpreter of its own would read sitecustomize.py
    assert "5 files outside the submission's folder changed" in said_by(desk)
    assert not was_run.exists()


@pytest.mark.release
@needs_bash
def test_one_for_another_is_refused_twice(desk: Desk) -> None:
    def replace() -> None:
        shutil.rmtree(desk.head / SUBMISSIONS / SLUG)
        desk.add("thumb-rules-2")

    desk.publish()
    desk.change(replace)
    done = desk.verify()
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert f"{SLUG}: no such folder" in done.stderr
    assert done.stdout.count("4 files outside the submission's folder changed") == 1
    assert f"serious: {SLUG}: the change takes it away or renames it" in done.stdout
    assert done.stdout.endswith("2 changed, 2 refused.\n")


def link_card(folder: Path) -> None:
    (folder / "submission.json").unlink()
    (folder / "submission.json").symlink_to("x")


CHANGES = {
    "rows": lambda folder: forge_bytes(folder, "task1/predictions", lambda data: data + b"\n"),
    "card": lambda folder: forge(folder, changed("name", "Mine now")),
    "mode": lambda folder: (folder / "submission.json").chmod(0o755),
    "link": link_card,
    "added": lambda folder: (folder / "task1" / "calls.jsonl").write_text(""),
    "removed": lambda folder: (folder / "task1" / "verdicts.jsonl").unlink(),
    "review": lambda folder: write_review(folder, status="reproduced", date="2026-02-01"),
}


@pytest.mark.few(1)
@needs_bash
@pytest.mark.parametrize("edit", few(CHANGES, {"rows", "review"}))
def test_a_change_of_a_submission_that_is_there_is_refused(desk, edit):
    desk.publish()
    desk.change(lambda: edit(desk.head / SUBMISSIONS / SLUG))
    assert "of a submission that is already in the base" in said_by(desk)


@pytest.mark.release
@needs_bash
def test_a_maintainer_who_knows_the_submitter_lets_a_correction_pass(desk: Desk) -> None:
    desk.publish()
    correction = changed("notes", "How to run it again.")
    desk.change(lambda: forge(desk.head / SUBMISSIONS / SLUG, correction))
    said_by(desk, code=1)
    said_by(desk, f"continues={SLUG}", code=0)


@pytest.mark.few(1)
@needs_bash
@pytest.mark.parametrize("name", ["Ru1es of thurnb", "Rulеs of\u2800thumb"])
def test_a_newcomer_takes_nobodys_name(desk: Desk, name: str) -> None:
    called = {"slug": "newcomer", "name": name}
    desk.publish()
    desk.change(lambda: forge(desk.add("newcomer"), lambda card: card.update(called)))
    told = said_by(desk)
    assert f"(submission {SLUG})" in told or "invisible character" in told


@needs_bash
@pytest.mark.release
def test_the_second_look_runs_the_base_and_nothing_of_the_change(desk: Desk) -> None:
    script = desk.base / ".ci"
    desk.commit(desk.base, lambda: shutil.copytree(SCRIPT.parent, script))

    was_run = desk.folder / "was-run"

    def add_code():
        desk.add()
        scripts = (".ci/verify-submissions", ".ci/second-look", "hooks/post-checkout")
        shell = f"#!/bin/sh\ntouch {shlex.quote(str(was_run))}\n"
        desk.plant(shell, *scripts, "bin/alps", "filter")
        package = ("alps/__init__.py", "alps/__main__.py", "sitecustomize.py")
        desk.plant(f"open({str(was_run)!r}, 'w')\n", *package, "venv.py", "encodings.py")
        (desk.head / ".gitattributes").write_text("* filter=evil merge=evil diff=evil\n")

    desk.change(add_code)
    # A maintainer's own settings, such as hooks that lie in the repository, must not make the
    # change's code run.
    desk.git(desk.base, "config", "core.hooksPath", "hooks")
    for key in ("filter.evil.smudge", "filter.evil.process", "merge.evil.driver"):
        desk.git(desk.base, "config", key, "./filter")
    desk.git(desk.base, "fetch", "--quiet", str(desk.head), "change")
    done = desk.second_look("FETCH_HEAD", "main")
    told = " ".join(done.stdout.split())
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "files outside the submission's folder changed" in told
    assert not was_run.exists()
    desk.git(desk.base, "config", "--unset", "filter.evil.process")
    desk.git(desk.base, "checkout", "--quiet", "FETCH_HEAD")
    assert was_run.exists(), "checking the change out runs its code: the hook is armed"


@pytest.mark.release
@needs_bash
def test_the_second_look_passes_what_is_in_order_with_what_was_merged_since(desk: Desk) -> None:
    desk.commit(desk.base, lambda: shutil.copytree(SCRIPT.parent, desk.base / ".ci"))
    desk.change(desk.add)
    desk.better()
    desk.git(desk.base, "fetch", "--quiet", str(desk.head), "change")
    done = desk.second_look("FETCH_HEAD", "main")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.endswith("1 changed, 0 refused.\n")
    assert not list((desk.folder / "tmp").iterdir())
    for words, told in ((("nothing", "main"), "nothing is no commit"), ((), "takes CHANGE")):
        done = desk.second_look(*words)
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr


@needs_bash
def test_where_no_submission_changed_there_is_nothing_to_verify(desk: Desk) -> None:
    desk.change(lambda: (desk.head / "README.md").write_text("a better suite\n"))
    assert said_by(desk, code=0) == "No submission changed: there is nothing to verify."


@needs_bash
def test_a_link_in_place_of_the_submissions_is_followed_nowhere(desk: Desk) -> None:
    def link() -> None:
        (desk.head / SUBMISSIONS).parent.mkdir()
        (desk.head / SUBMISSIONS).symlink_to(desk.submission.parent)

    desk.change(link)
    told = "verify-submissions: leaderboard/submissions is no folder in this change"
    done = desk.verify()
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{told}\n")


@needs_bash
def test_a_change_without_the_commit_of_the_base_can_not_be_judged(desk: Desk) -> None:
    desk.change(desk.add)
    desk.better()
    done = desk.verify()
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "fetch it with its history" in done.stderr


def test_the_workflow_may_only_read_and_runs_the_code_of_the_base() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    workflow = pytest.importorskip("yaml").safe_load(text)
    # It is started by pull requests alone; YAML 1.1 takes the word `on` for true.
    assert workflow[True] == "pull_request"
    assert workflow["permissions"] == {"contents": "read"}
    known = {"runs-on", "timeout-minutes", "steps"}
    assert all(job.keys() <= known for job in workflow["jobs"].values())
    # It knows no secret, and puts no word of a stranger into a command.
    commands = text.split("\nname:", 1)[1]
    forbidden = ("secrets", "pull_request_target", "workflow_run")
    assert [word for word in forbidden if word in commands] == []
    assert ANYTHING_ELSE.search(commands) is None
    steps = workflow["jobs"]["verify"]["steps"]
    assert not any("${{" in step.get("run", "") or "env" in step or "if" in step for step in steps)
    base, head = [
        step["with"] for step in steps if step.get("uses", "").startswith("actions/checkout@v")
    ]
    assert (base["path"], base["ref"]) == ("base", "refs/heads/${{ github.base_ref }}")
    assert (head["path"], head["fetch-depth"], "ref" in head) == ("head", 0, False)
    assert base["persist-credentials"] is head["persist-credentials"] is False
    install, verify = [step for step in steps if "run" in step]
    assert install["working-directory"] == "base"
    assert re.fullmatch(r"python -m pip install .* \.", install["run"])
    assert verify["run"] == "base/.ci/verify-submissions base head"
    assert os.access(SCRIPT, os.X_OK)


def test_the_checklist_of_a_pull_request_is_that_of_the_documentation() -> None:
    items = re.findall(r"^- \[ \] (.+)$", CHECKLIST.read_text(encoding="utf-8"), re.MULTILINE)
    page = (ROOT / "docs" / "submitting.md").read_text(encoding="utf-8")
    told = re.findall(r"^- \[ \] (.+(?:\n  .+)*)$", page, re.MULTILINE)
    assert items == [" ".join(item.split()) for item in told]
    assert items == [item for item, _ in PACKED]
    assert len(items) > 5
