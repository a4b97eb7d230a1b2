"""From a run to a corrected score: each step prints the command of the next one, to be pasted."""

import json
import re
import shlex
from html import unescape
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.annotate_work import NEEDED, label_all
from tests.endtoend import end, start
from tests.loopback import serve
from tests.tracks import alps_done, alps_here, between, met
from tests.visitors import good, write_visitors

pytest.importorskip("starlette", reason=NEEDED)
JUDGE = "openai/scripted-judge"
RATED = ("task=utilization", "ability=pa", "model=rules", "data=samples")


def printed(pattern: str, text: str) -> list[str]:
    """Return the words of the command that a text prints."""
    command = re.search(rf"alps ({pattern}.*)", text)
    assert command is not None, text
    return shlex.split(command[1])


def pasted(words: list[str]) -> str:
    """Run a command as printed, and return what it prints."""
    done = alps_done(*words)
    return done.out


def annotated(words: list[str], label: str) -> tuple[str, str]:
    """Begin to annotate as printed, and label everything; return the terminal and the page."""
    process, lines = start(Path.cwd(), *words), []
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.append(line)
            if address := re.search(r"http://\S+", line):
                break
        page = unescape(urlopen(address[0]).read().decode())
    finally:
        end(process)
    label_all(Path(words[1]), "me", lambda step: {"label": label})
    return "".join(lines), page


def under(llm) -> tuple[str, ...]:
    """Return the words that make a server the judge."""
    return f"judge={JUDGE}", f"judge_api_base={llm.url}", "baseline_records=0"


@pytest.fixture
def llm(tmp_path, monkeypatch):
    def rate(body):
        return met("met")

    with serve(between(good, rate)) as server:
        monkeypatch.chdir(tmp_path)
        for name, value in {"OPENAI_API_KEY": "none", "ALPS_CACHE": "off"}.items():
            monkeypatch.setenv(name, value)
        yield server


def test_a_rubric_is_corrected_by_the_commands_that_are_printed(llm):
    shown = pasted(["run", *RATED, *under(llm), "out=runs/mine"])
    terminal, page = annotated(printed("annotate", shown), "0")
    purpose = (
        "alps uses these labels to calibrate the judge of runs/mine and to correct the run's "
        "scores."
    )
    assert purpose in terminal
    assert purpose in page
    asked = len(llm.requests)
    exported = pasted(printed("annotate export", terminal))
    calibrated = pasted(printed("calibrate", exported))
    corrected = pasted(printed("score", calibrated))
    assert len(llm.requests) == asked  # the judge has said all of it already
    assert "\n corrected " in corrected
    assert "as judged" in pasted(["show", "runs/mine"])
    scores = json.loads(Path("runs/mine/summary.json").read_text())["tracks"]["task4_ability1"]
    pa = scores["scores"]["pa"]
    assert pa["value"] == 1
    assert pa["corrected"]["value"] == 0  # people say that no answer is apt
    assert pa["corrected"]["method"] == "ppi"
    assert "\n corrected " not in pasted(["score", "runs/mine", "calibration=off"])
    assert "as judged" not in pasted(["show", "runs/mine"])


def test_labels_of_a_run_without_verdicts_are_for_another_judge(llm):
    """The judge of this run can't rate, so its own verdicts can't be compared with people's."""
    pasted(["run", *RATED, "out=runs/mine"])
    terminal, page = annotated(["annotate", "work", "job=rate", "from=runs/mine"], "0")
    purpose = "The judge of runs/mine gave no verdicts on these items; alps uses these labels to "
    assert purpose in terminal
    assert purpose in page
    exported = pasted(printed("annotate export", terminal))
    words = printed("calibrate", exported)
    assert words[-1] == "judge=PROVIDER/MODEL"
    calibrated = pasted([*words[:-1], *under(llm)[:2], "out=known"])
    assert f"{JUDGE} on pa" in calibrated


@pytest.mark.release
def test_f1_is_corrected_by_the_commands_that_are_printed(llm):
    data = write_visitors(Path("visitors"), 22)
    words = ("task=extraction", "model=openai/scripted", f"api_base={llm.url}", f"data={data}")
    shown = pasted(["run", *words, *under(llm), "out=runs/mine"])
    terminal, page = annotated(printed("annotate", shown), "unrelated")
    assert "To correct F1, precision or recall, audit the run instead." in terminal
    assert "To correct F1, precision or recall, audit the run instead." in page
    # Labels of pairs say how good the judge is, and what corrects F1 instead.
    calibrated = pasted(printed("calibrate", pasted(printed("annotate export", terminal))))
    assert printed("annotate audit", calibrated) == printed("annotate audit", terminal)
    terminal, page = annotated(printed("annotate audit", terminal), "unrelated")
    purpose = "alps uses these labels to audit runs/mine and to correct its scores, including F1."
    assert purpose in terminal
    assert purpose in page
    corrected = pasted(printed("score", pasted(printed("annotate export", terminal))))
    assert "\n corrected " in corrected
    assert "Corrected with audits by people" in pasted(["show", "runs/mine"])
    summary = json.loads(Path("runs/mine/summary.json").read_text())
    f1 = summary["audit"]["tracks"]["task1"]["scores"]["f1"]
    assert f1["value"] < summary["tracks"]["task1"]["scores"]["f1"]["value"] / 2


@pytest.mark.release
def test_a_calibration_from_an_export_is_for_the_judge_of_its_run_alone(llm):
    judge, *asked = under(llm)
    shown = pasted(["run", *RATED, judge, *asked, "out=runs/mine"])
    terminal, _ = annotated(printed("annotate", shown), "0")
    pasted(printed("annotate export", terminal))
    calibrated = pasted(["calibrate", "labels=work-mine-labels", "out=known"])
    assert "Valid until" in calibrated
    given = (*asked, "calibration=known")
    other = alps_here("score", "runs/mine", "judge=openai/another", *given, "out=runs/another")
    assert "judge.judge was" in other.one_line
    same = alps_here("score", "runs/mine", judge, *given, "out=runs/same")
    assert (same.code, "\n corrected " in same.out) == (0, True)
    # What was changed by hand is no judge's.
    verdicts = Path("work-mine-labels", "verdicts.jsonl")
    verdicts.write_text(verdicts.read_text().replace('"verdict":1', '"verdict":0', 1))
    calibrated = pasted(["calibrate", "labels=work-mine-labels", "out=changed"])
    assert "corrects no scores" in " ".join(calibrated.split())
    assert "To correct the scores of" not in calibrated
