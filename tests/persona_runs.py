"""What tests of `task=personamem` share: the published files beside the checkout, and runs."""

import csv
import json

import pytest

from tests.conftest import ROOT
from tests.loopback import serve

PUBLISHED = ROOT.parent / "shared" / "personamem_sample"
published = pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"no {PUBLISHED.name} beside it")


def run(alps, *words, code=0, out="run"):
    """Run the task to its end; return the finished command."""
    done = alps("run", "task=personamem", *words, f"out={out}")
    assert done.returncode == code, done.stdout + done.stderr
    return done


def predictions_of(name):
    """Return the file of answers that the authors published under a name."""
    return PUBLISHED / "predictions" / f"pred_32k_{name}_gpt-4o.csv"


def score_published(alps, name, *words, out="run"):
    """Score answers that the authors published."""
    return run(
        alps, f"data={PUBLISHED}", f"model=predictions:{predictions_of(name)}", *words, out=out
    )


def served(alps, *words, answer, code=0, out="run"):
    """Run the task on a served model; return the finished command and the server."""
    with serve(answer) as server:
        model = ("model=openai/scripted", f"api_base={server.url}")
        return run(alps, *model, *words, code=code, out=out), server


def asked_of(request):
    """Return the question that a request holds."""
    return json.loads(request["messages"][1]["content"])


def is_judge(request):
    """Tell whether a request asks a judge which option an answer agrees with."""
    return '"kind": "options"' in request["messages"][1]["content"]


def summary(folder):
    """Return what a run found."""
    return json.loads((folder / "summary.json").read_text())["tracks"]["personamem"]


def figures(folder):
    """Return the values of the scores of a run by their names."""
    return {name: score["value"] for name, score in summary(folder)["scores"].items()}


def rows(folder, name="predictions"):
    """Return the rows of one of the files of a run."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def settings_of(folder):
    """Return the settings that a run wrote down."""
    return json.loads((folder / "manifest.json").read_text())["settings"]


def read_table(path):
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_table(path, content):
    """Write rows of the same columns as a CSV file; return its path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(content[0]))
        writer.writeheader()
        writer.writerows(content)
    return path
