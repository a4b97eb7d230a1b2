"""A `.env` of the working folder is a stranger's file: nothing of it is read."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.endtoend import environment, extraction, finish, start_cold
from tests.few import few
from tests.loopback import serve
from tests.visitors import good, write_visitors

STRANGE = "OPENAI_API_KEY=of-the-stranger\nOF_DOTENV=1\n"
IMPORTING = """
import os, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from alps.llm.wire import libraries
libraries()
import datasets, huggingface_hub, instructor
print([name for name in opened if os.path.basename(name).startswith(".env")])
print(os.environ.get("OF_DOTENV"), os.environ.get("LITELLM_MODE"), \
os.environ.get("PYTHON_DOTENV_DISABLED"))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a `.env` in and above it, and litellm in a virtual environment in it, as in
    most checkouts.

    python-dotenv searches the folders above the file that asks it, not the working folder.
    """
    checkout, installed = tmp_path / "checkout", tmp_path / "checkout" / "venv"
    installed.mkdir(parents=True)
    (installed / "litellm").symlink_to(Path(str(importlib.util.find_spec("litellm").origin)).parent)
    for folder in (tmp_path, checkout):
        (folder / ".env").write_text(STRANGE)
        (folder / ".env.local").write_text(STRANGE)
    return checkout


@pytest.mark.parametrize("mode", few([None, "DEV"], plain={0}))
def test_no_library_opens_a_dotenv_and_the_environment_stays_the_users(checkout: Path, mode):
    (checkout / "look.py").write_text(IMPORTING)
    own = {"LITELLM_MODE": mode} if mode else {}
    done = subprocess.run(
        [sys.executable, "look.py"],
        check=False,
        cwd=checkout,
        env=environment(checkout, PYTHONPATH=str(checkout / "venv"), **own),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines() == ["[]", f"None {mode} None"], done.stderr


@pytest.mark.release
def test_a_run_beside_a_strange_dotenv_asks_its_endpoint_without_the_strangers_key(checkout: Path):
    write_visitors(checkout / "data", 1)
    with serve(good) as server:
        words = extraction(server.url, "out=run")
        done = finish(start_cold(checkout, *words, PYTHONPATH=str(checkout / "venv")))
    assert done.returncode == 0, done
    sent = [{name.lower(): value for name, value in found.items()} for found in server.headers]
    assert {found.get("authorization") for found in sent} == {"Bearer not-needed"}
