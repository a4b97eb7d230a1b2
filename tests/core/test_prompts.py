"""`prompt=recall|precision`: what extraction asks a model, and what a run asked so is compared
with.
"""

import json

import pytest

from tests.endtoend import rows, summary
from tests.loopback import Answer, serve
from tests.tracks import MODEL, alps_here

SIX = {"type", "label", "label_suggestion", "value", "confidence", "evidence_text"}
TEN = {"turn", "type", "label", "label_suggestion", "value", "reasoning", "confidence"}
TEN |= {"time_scope", "emotion", "preference_attitude"}
ITEM = {"type": "direct", "label": "Possessions/Pet", "label_suggestion": None}
ITEM |= {"value": "Owns a cat", "confidence": 0.95, "evidence_text": "my cat"}
PROMPTS = ("recall", "precision")
RUN = ("run", "task=extraction", f"model={MODEL}", "limit=2")


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A run under each prompt, with the requests that it made."""
    folder = tmp_path_factory.mktemp("asked")
    requests = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "none")
        for name in PROMPTS:
            with serve(lambda body: Answer(json.dumps({"memory_items": [ITEM]}))) as server:
                given = (f"api_base={server.url}", f"prompt={name}", f"out={folder / name}")
                ran = alps_here(*RUN, *given)
            assert ran.code == 0, ran
            requests[name] = (server.requests, ran.out)
    return folder, requests


def fields_of(request):
    schema = request["response_format"]["json_schema"]["schema"]
    definitions = [d for d in schema["$defs"].values() if "value" in d["properties"]]
    return set(definitions[0]["properties"])


def test_the_recall_prompt_asks_for_six_fields_in_words_of_its_own_and_reads_them_whole(asked):
    folder, requests = asked
    recall, precision = (requests[name][0][0] for name in PROMPTS)
    assert (fields_of(recall), fields_of(precision)) == (SIX, TEN)
    text, other = (request["messages"][0]["content"] for request in (recall, precision))
    assert text != other
    assert {line.split("`")[1] for line in text.splitlines() if line.startswith("- `")} == SIX
    assert "Preferences/Food" in text
    first = rows(folder / "recall" / "predictions.jsonl")[0]
    item = first["prediction"]["memory_items"][0]
    assert (item["value"], item["evidence"]["text"]) == ("Owns a cat", "my cat")
    assert not first["notes"]


def test_the_manifest_tells_the_prompts_apart(asked):
    folder, _ = asked
    recall, precision = (
        json.loads((folder / name / "manifest.json").read_text()) for name in PROMPTS
    )
    assert recall["settings"]["prompt"] == "recall"
    assert set(recall["prompts"]) == {"extraction/recall-1"}
    assert set(precision["prompts"]) == {"extraction/2"}


def test_a_folder_of_one_prompt_is_not_resumed_under_the_other(asked, monkeypatch):
    folder, _ = asked
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    nobody = "api_base=http://127.0.0.1:9/v1"
    ran = alps_here(*RUN, nobody, "prompt=precision", f"out={folder / 'recall'}")
    assert "settings.prompt" in ran.one_line


def test_the_prompt_stands_wherever_scores_are_shown(asked, tmp_path):
    folder, requests = asked
    assert "(prompt recall) on " in requests["recall"][1]
    assert "on extraction (prompt recall)" in alps_here("show", folder / "recall").out
    assert "prompt" not in requests["precision"][1]
    assert summary(folder / "recall")["tracks"]["task1"]["prompt"] == "recall"
    assert "prompt recall" in alps_here("ls", folder).out
    compared = alps_here("compare", folder / "recall", folder / "precision")
    said = " ".join(compared.out.split())
    assert "Different conditions: A prompt=recall, B default settings" in said
    again = alps_here("score", folder / "recall", f"out={tmp_path / 'again'}")
    assert "(prompt recall) on " in again.out


def test_a_dry_run_counts_the_prompt_that_would_be_sent(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    counted = set()
    for name in PROMPTS:
        ran = alps_here(*RUN, "dry_run=yes", f"prompt={name}", f"out={tmp_path / name}")
        assert ran.code == 0, ran
        counted.add(next(line for line in ran.out.splitlines() if ", answers " in line))
    assert len(counted) == 2


OF_LLM, BOTH = ("task=extraction", f"model={MODEL}"), "'precision' or 'recall'"
NOT_ASKED = "prompt=recall would change nothing: model=rules is not a litellm model"
OF_EXTRACTION = "prompt=recall: only task extraction uses prompt="
REFUSED = {
    "another task": (("task=update", f"model={MODEL}", "prompt=recall"), OF_EXTRACTION),
    "a system that is asked in no words": (
        *(("task=extraction", "model=rules", "prompt=recall"), NOT_ASKED),
    ),
    "no such prompt": ((*OF_LLM, "prompt=both"), f"prompt=both: must be {BOTH}"),
}


@pytest.mark.parametrize(("words", "told"), REFUSED.values(), ids=REFUSED)
def test_a_prompt_that_would_change_nothing_is_refused(words, told, tmp_path):
    assert told in alps_here("run", *words, f"out={tmp_path / 'out'}").one_line
    assert not (tmp_path / "out").exists()
