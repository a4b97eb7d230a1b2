"""Whether people agree with a judge decides how differences of two runs are told."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from alps.show.compare import compare_runs
from alps.show.compare_table import print_comparison
from tests.conftest import ROOT
from tests.endtoend import edit_json, rows, write_rows
from tests.loopback import serve
from tests.report_runs import folded
from tests.tracks import JUDGE, alps_done, met, payload_of, target_row, write_ability


@pytest.mark.few(2)
@pytest.mark.parametrize(("verdict", "bold"), [(None, False), ("fail", False), ("pass", True)])
def test_a_p_is_bold_only_under_a_judge_that_passed_its_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str | None, bold: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = ROOT / "judges" / "calibrations" / "lexical.json"
    calibration = json.loads(shipped.read_text("utf-8"))
    if verdict is not None:
        calibration["rubrics"]["matching"]["verdict"] = verdict
        (tmp_path / "known").mkdir()
        (tmp_path / "known" / "own.json").write_text(json.dumps(calibration), "utf-8")
        monkeypatch.setenv("ALPS_CALIBRATIONS", str(tmp_path / "known"))
    for model in ("rules", "oracle"):
        words = ("task=extraction", f"model={model}", "data=samples", f"out=by-{model}")
        alps_done("run", *words)
    comparison = compare_runs([Path("by-rules"), Path("by-oracle")])
    assert comparison.tracks[0].metrics[0].contrasts[0].corrected <= 0.05
    out = io.StringIO()
    print_comparison(comparison, Console(file=out, force_terminal=True, width=100), whole=True)
    lines = out.getvalue().splitlines()
    (row,) = [line for line in lines if re.match(r"(\x1b\[1m|\s)*F1 ", line)][:1]
    assert ("\x1b[1m" in row) is bold
    text = folded(out.getvalue())
    assert ("p <.001, but the judge is not validated" in text) is not bold
    assert ("significant (p <.001)" in text) is bold
    assert "Judge lexical: for debugging; style alone can change its scores" in text


def done(*words: object) -> str:
    ran = alps_done(*words)
    return folded(ran.out)


def test_a_p_is_trusted_under_the_very_llm_judge_that_was_calibrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ALPS_CALIBRATIONS", str(tmp_path / "known"))
    write_ability(Path("asked"), 1, *(target_row(f"r{n:02}") for n in range(24)))
    doubt = "but the judge is not validated"
    with serve(
        lambda body: met("met" if "Soup" in payload_of(body)["response"] else "not_met")
    ) as llm:
        judge = (f"judge={JUDGE}", f"judge_api_base={llm.url}")
        for name, good in (("soups", 24), ("nuts", 12)):
            texts = [f"{'Soup' if n < good else 'Nuts'} number {n}." for n in range(24)]
            answers = [{"benchmark_id": f"r{n:02}", "answer": one} for n, one in enumerate(texts)]
            write_rows(Path(f"{name}.jsonl"), answers)
            rated = ("task=utilization", "ability=pa", f"model=predictions:{name}.jsonl")
            done("run", *rated, "data=asked", *judge, "baseline_records=0", f"out={name}")
        done("annotate", "draw", "nuts", "n=24", "out=labels")
        said = {
            row["item_id"]: int("Soup" in row["payload"]["response"])
            for row in rows(Path("labels/items.jsonl"))
        }
        write_rows(
            Path("labels/labels.jsonl"),
            [
                {"item_id": item, "annotator": who, "label": label}
                for item, label in said.items()
                for who in ("anna", "ben")
            ],
        )
        done("calibrate", "labels=labels", *judge, "judge_temperature=1", "out=known/hot")
        assert doubt in done("compare", "soups", "nuts")
        done("calibrate", "labels=labels", *judge, "out=known/same")
    told = done("compare", "soups", "nuts")
    assert doubt not in told
    assert "significant (p <.001)" in told
    edit_json(Path("known/same/calibration.json"), lambda row: row.update(expires="2020-01-01"))
    assert doubt in done("compare", "soups", "nuts")
