"""A `.env` of the working folder is a stranger's file: nothing of it is read, whatever the user's
own mode says.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.endtoend import environment, extraction, finish, run, start_cold
from tests.loopback import serve
from tests.visitors import good, write_visitors

STRANGE = "OPENAI_API_KEY=of-the-stranger\nOF_DOTENV=1\n"
IMPORTING = """
import os, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from alps.llm.libraries import libraries
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


@pytest.mark.parametrize("mode", [None, "DEV"])
def test_no_library_opens_a_dotenv_and_the_environment_stays_the_users(
    checkout: Path, mode: str | None
):
    (checkout / "look.py").write_text(IMPORTING)
    given = environment(
        checkout, PYTHONPATH=str(checkout / "venv"), **({"LITELLM_MODE": mode} if mode else {})
    )
    look = [sys.executable, "look.py"]
    done = subprocess.run(
        look, check=False, cwd=checkout, env=given, capture_output=True, text=True, timeout=100
    )
    assert done.stdout.splitlines() == ["[]", f"None {mode} None"], done.stderr


def test_a_run_beside_a_strange_dotenv_asks_its_endpoint_without_the_strangers_key(checkout: Path):
    write_visitors(checkout / "data", 1)
    with serve(good) as server:
        words = extraction(server.url, "out=run")
        done = finish(start_cold(checkout, *words, PYTHONPATH=str(checkout / "venv")))
    assert done.returncode == 0, done
    keys = {
        value
        for headers in server.headers
        for name, value in headers.items()
        if name.lower() == "authorization"
    }
    assert keys == {"Bearer not-needed"}


def test_an_endpoint_of_the_users_own_environment_is_heeded_and_named(tmp_path: Path):
    write_visitors(tmp_path / "data", 1)
    words = ("run", "task=extraction", "data=data", "model=openai/tiny", "out=run")
    with serve(good) as server:
        own = {"OPENAI_API_KEY": "of-the-user", "OPENAI_BASE_URL": server.url}
        done = run(tmp_path, *words, **own)
    assert done.returncode == 0, done
    assert len(server.requests) == 1
    said = f"alps: openai/tiny is asked at 127.0.0.1:{server.server_port}, as OPENAI_BASE_URL says"
    assert done.stderr.splitlines().count(said) == 1
