"""Published PersonaMem files beside the checkout, and what a run of its task wrote."""

import json

import pytest

from tests.conftest import ROOT

PUBLISHED = ROOT.parent / "shared" / "personamem_sample"
published = pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"no {PUBLISHED.name} beside it")


def summary(folder):
    """Return what a run found."""
    return json.loads((folder / "summary.json").read_text())["tracks"]["personamem"]


def rows(folder, name="predictions"):
    """Return the rows of one of the files of a run."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
