"""Audits in submissions: what is published is recomputed, and boards tell whether it holds."""

import json
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alps.ext.audits.draws import place_of
from alps.ext.calibration.sample import draw_audit
from alps.leaderboard.packing import pack
from alps.leaderboard.site import build
from alps.leaderboard.site_data import load_one
from alps.leaderboard.submission import REVIEW, AuditDraw, read_entry
from alps.leaderboard.verify import Options, verify
from tests.conftest import ROOT
from tests.endtoend import rows, summary, write_rows
from tests.pages import Page
from tests.submissions import DROPPED, WHO, card_of, changed, forge, forge_rows
from tests.tracks import alps_done, alps_here


def write_answers(oracle: Path, out: Path) -> None:
    """Write the gold with every third memory left out, and every fourth in other words."""
    with out.open("w") as file:
        for row in rows(oracle / "predictions.jsonl"):
            kept = []
            for place, item in enumerate(row["prediction"]["memory_items"]):
                words = item["value"].split()
                value = f"Concerning {words[-1]} and {words[0]}, somewhat"
                if place % 3:
                    kept.append(item if place % 4 < 3 else {**item, "value": value})
            answer = {"benchmark_id": row["benchmark_id"], "memory_items": kept}
            file.write(json.dumps(answer) + "\n")


def label(folder: Path) -> None:
    """Say of every pair what its last words say, as one person."""
    labels = []
    for item in rows(folder / "items.jsonl"):
        gold, predicted = (item["payload"][side]["value"] for side in ("gold", "predicted"))
        same = set(gold.lower().split()[-2:]) & set(predicted.lower().split())
        said = {"item_id": item["item_id"], "annotator": "anna"}
        labels.append({**said, "label": "narrower" if same else "unrelated"})
    write_rows(folder / "labels.jsonl", labels)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Two systems that people audited, packed."""
    here = tmp_path_factory.mktemp("audited")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        extraction = ("run", "task=extraction", "data=samples")
        assert alps_here(*extraction, "model=oracle", "out=oracle").code == 0
        write_answers(here / "oracle", here / "answers.jsonl")
        for name, model in (("rules", "rules"), ("others", "predictions:answers.jsonl")):
            assert alps_here(*extraction, f"model={model}", f"out={name}").code == 0
            details = replace(WHO, name=name)
            sent = here / "sent" / f"of-{name}"
            pack([here / name], details, out=sent)
            draw = recorded(sent)
            draw_audit(here / name, 0.85, pairs=True, out=here / f"{name}-labels", seed=draw.seed)
            label(here / f"{name}-labels")
            alps_done("score", name, f"audit_labels={name}-labels")
            audited = here / "packed" / f"of-{name}"
            pack([here / name], details, out=audited)
            # As a maintainer has it who knows that it is the same submitter's.
            shutil.copyfile(sent / REVIEW, audited / REVIEW)
    return here


def recorded(folder: Path, *words: str) -> AuditDraw:
    """Note as a maintainer that a submission is in order; return the draw that this gives."""
    done = alps_done("leaderboard", "verify", str(folder), *words, "record=yes")
    review = read_entry(folder).review
    assert review is not None
    assert review.audit_draw is not None
    shown = f"show an audit of these answers only if it uses audit_seed={review.audit_draw.seed}"
    assert shown in " ".join(done.out.split())
    return review.audit_draw


def corrected_on_boards(packed: Path, out: Path) -> tuple[str, dict[str, float | None]]:
    """Build the boards; return the page of extraction and the corrected F1 by name."""
    built = build(packed, out)
    found: dict[str, float | None] = {}
    for path in (built.out / "data").glob("task1-f1-*.json"):
        for row in json.loads(path.read_text())["rows"]:
            found[row["name"]] = row.get("f1_corrected_value")
    return Page((built.out / "extraction.html").read_text("utf-8")).text, found


@pytest.fixture
def copy(shelf, tmp_path):
    """A packed submission that may be spoiled."""
    return Path(shutil.copytree(shelf / "packed" / "of-others", tmp_path / "of-others"))


def test_a_submission_carries_the_audit_and_its_corrected_scores(shelf):
    audit = card_of(shelf / "packed" / "of-others")["tracks"]["task1"]["audit"]
    found = summary(shelf / "others")["audit"]["tracks"]["task1"]["scores"]
    assert audit["scores"] == found
    assert (audit["judge"], audit["sessions"]) == ("people", 23)
    published = rows(shelf / "packed" / "of-others" / "task1" / "audit.jsonl")
    assert len(published) == 23
    assert published[0]["verdict"]["pairs"]


def test_it_is_recomputed_from_the_verdicts_of_people(copy):
    verification = verify(copy)
    assert [one for one in verification.findings if one.severity == "serious"] == []
    assert verification.recomputed == ("task1",)


def draws_others(seed: int) -> int:
    """Return a seed that draws other sessions: one in 2,600 draws the same 23 of 26."""
    samples = rows(ROOT / "data" / "samples" / "dev" / "task1" / "model_input.jsonl")
    sessions = [row["session_id"] for row in samples]

    def drawn(seed: int) -> set[str]:
        return set(sorted(sessions, key=lambda session: place_of(session, seed))[:23])

    return next(other for other in count(7) if drawn(other) != drawn(seed))


AUDIT = "tracks.task1.audit"
CARDS = [
    (f"{AUDIT}.scores.f1.value", 0.99, "corrected.f1.value: the card has"),
    (f"{AUDIT}.seed", draws_others, " drawn but not audited: "),
    (AUDIT, None, "the card lacks either the audit or its file audit.jsonl"),
    (f"{AUDIT}.fingerprint.judge", "gpt-9", "the id is not the hash of the other parts"),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("path", "value", "said"), CARDS)
def test_a_card_that_was_tampered_with_is_refused_in_one_line(copy, path, value, said):
    forge(copy, changed(path, value))
    refused = alps_here("leaderboard", "verify", str(copy))
    assert refused.code == 1
    assert said in " ".join((refused.out + refused.err).split())


def without_pairs(found: list[dict[str, Any]]) -> None:
    row = next(row for row in found if row["verdict"] and row["verdict"]["pairs"])
    row["verdict"]["pairs"] = []


ROWS = (changed("0.scores.f1", 1.0), without_pairs, changed("0", DROPPED))


@pytest.mark.few(2)
@pytest.mark.parametrize("change", ROWS, ids=("score", "verdict", "chosen records"))
def test_audit_rows_that_were_tampered_with_are_refused(copy, change):
    forge_rows(copy, "task1/audit", change)
    assert "audit" in {one.code for one in verify(copy).findings if one.severity == "serious"}


def test_a_board_tells_what_corrects_a_score(shelf, tmp_path):
    text, values = corrected_on_boards(shelf / "packed", tmp_path / "site")
    found = summary(shelf / "others")["audit"]["tracks"]["task1"]["scores"]["f1"]
    assert f"{found['value']:.3f}".removeprefix("0") in text
    assert "23 audits by people" in text
    assert values["others"] == found["value"]
    reviewed = verify(shelf / "packed" / "of-others", Options(reviewed=True))
    assert [one for one in reviewed.findings if one.code == "audit"] == []


CHOSEN = "which the submitter may have chosen; boards omit the audit"


@pytest.mark.parametrize(
    ("seed", "said"),
    [(1, CHOSEN), (None, "follows from the answers, which the submitter could vary")],
)
def test_an_audit_that_no_maintainer_drew_is_named_and_left_out_of_boards(
    shelf, tmp_path, monkeypatch, seed, said
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(shelf / "others", "run")
    draw_audit(tmp_path / "run", 0.85, pairs=True, out=tmp_path / "labels", seed=seed)
    label(tmp_path / "labels")
    assert alps_here("score", "run", "audit_labels=labels").code == 0
    pack([tmp_path / "run"], replace(WHO, name="others"), out=tmp_path / "packed" / "of-others")
    recorded(tmp_path / "packed" / "of-others")
    verified = alps_done("leaderboard", "verify", "packed/of-others", "reviewed=yes")
    assert said in " ".join(verified.out.split())
    text, values = corrected_on_boards(tmp_path / "packed", tmp_path / "site")
    assert "audit hidden: no maintainer drew its records" in text
    assert "audits by people" not in text
    assert values["others"] is None


def test_the_draw_of_a_maintainer_is_for_the_answers_that_were_sent(shelf, tmp_path):
    sent = Path(shutil.copytree(shelf / "sent", tmp_path / "packed"))
    given = recorded(sent / "of-others")
    assert recorded(sent / "of-others") == given
    # The same answers under another name get the same draw: nobody asks until one is liked.
    again, folder = replace(WHO, name="Second thoughts"), sent / "second"
    pack([shelf / "others"], again, out=folder)
    assert recorded(folder) == given
    # Other answers get another, and an audit by the first is none of theirs.
    shutil.copyfile(folder / REVIEW, sent / "of-rules" / REVIEW)
    verified = verify(sent / "of-rules", Options(reviewed=True))
    assert not verified.serious
    assert recorded(sent / "of-rules").answers != given.answers
    assert recorded(sent / "of-rules").seed != given.seed


def test_a_draw_for_other_answers_is_named_and_left_out_of_boards(copy):
    review = json.loads((copy / REVIEW).read_text())
    review["audit_draw"]["answers"] = "0" * 64
    (copy / REVIEW).write_text(json.dumps(review))
    (found,) = (one for one in verify(copy, Options(reviewed=True)).findings if one.code == "audit")
    assert "which a maintainer drew for other answers, verdicts or scores" in found.what
    assert not load_one(copy).audit_is_drawn("task1")


def test_a_review_judged_again_keeps_the_draw(copy):
    before = read_entry(copy).review
    alps_done("leaderboard", "rescore", str(copy), "judge=lexical", f"out={copy.parent / 'work'}")
    after = read_entry(copy).review
    assert (before.audit_draw, after.status) == (after.audit_draw, "re-scored")


def test_audits_of_other_sessions_are_not_compared_and_the_way_to_it_is_named(shelf):
    compared = alps_here("compare", shelf / "others", shelf / "rules", "metrics=all")
    said = " ".join(compared.out.split())
    assert "audit each run with audit_seed=0 to draw the same sessions" in said
