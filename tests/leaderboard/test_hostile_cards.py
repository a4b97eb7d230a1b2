"""Cards by somebody who means harm: script in every text, numbers that are none, names that trick
the eye.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps.leaderboard.submission import CARD
from tests.submissions import HOME, SLUG, Shelf, card_of, forge, refused, said, write_card_of

SCRIPT = "<script>alert(1)</script>"
Card = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def folder(shelf: Shelf, tmp_path: Path) -> Path:
    return shelf.copy(tmp_path)


def _score(card: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = card["tracks"]["task1"]["scores"]["f1"]
    return found


TEXTS: dict[str, Callable[[dict[str, Any], str], object]] = {
    "name": lambda card, text: card.update(name=text),
    "org": lambda card, text: card.update(org=text),
    "notes": lambda card, text: card.update(notes=text),
    "url": lambda card, text: card.update(url=f"https://example.org/{text}"),
    "submitted": lambda card, text: card.update(submitted=text),
    "alps": lambda card, text: card.update(alps=text),
    "slug": lambda card, text: card.update(slug=text),
    "system.kind": lambda card, text: card["system"].update(kind=text),
    "system.model": lambda card, text: card["system"].update(model=text),
    "system.snapshot": lambda card, text: card["system"].update(snapshot=text),
    "system.settings": lambda card, text: card["system"].update(settings={"a": [{"b": text}]}),
    "system.settings.": lambda card, text: card["system"].update(settings={text: 1}),
    "runs.0.settings": lambda card, text: card["runs"][0]["settings"].update(model=text),
    "runs.0.prompts": lambda card, text: card["runs"][0]["prompts"].update({"extraction/1": text}),
    "runs.0.data.name": lambda card, text: card["runs"][0]["data"].update(name=text),
    "runs.0.data.split": lambda card, text: card["runs"][0]["data"].update(split=text),
    "runs.0.data.commit": lambda card, text: card["runs"][0]["data"].update(commit=text),
    "runs.0.judge": lambda card, text: card["runs"][0]["judge"].update(judge=text),
    "tracks": lambda card, text: card["tracks"].update({text: card["tracks"]["task1"]}),
    "tracks.task1.task": lambda card, text: card["tracks"]["task1"].update(task=text),
    "tracks.task1.conditions": lambda card, text: card["tracks"]["task1"].update(
        conditions={"window": text}
    ),
    "tracks.task1.judge": lambda card, text: card["tracks"]["task1"].update(judge=text),
    "tracks.task1.judge_fingerprint": lambda card, text: card["tracks"]["task1"].update(
        judge_fingerprint=text
    ),
    "tracks.task1.scores.": lambda card, text: card["tracks"]["task1"]["scores"].update(
        {text: _score(card)}
    ),
    "tracks.task1.scores.f1.unscored": lambda card, text: _score(card).update(unscored=text),
    "tracks.task1.counts": lambda card, text: card["tracks"]["task1"]["counts"].update({text: 1}),
    "tracks.task1.failed_predictions": lambda card, text: card["tracks"]["task1"].update(
        failed_predictions={text: 1}
    ),
    "tracks.task1.floors": lambda card, text: card["tracks"]["task1"]["floors"].update({text: {}}),
    "tracks.task1.floors.floor/empty.judge": lambda card, text: card["tracks"]["task1"]["floors"][
        "floor/empty"
    ].update(judge=text),
    "tracks.task1.files.scores.sha256": lambda card, text: card["tracks"]["task1"]["files"][
        "scores"
    ].update(sha256=text),
}


@pytest.mark.parametrize("field", TEXTS)
def test_script_in_a_text_field_is_refused(shelf: Shelf, folder: Path, field: str) -> None:
    forge(folder, lambda card: TEXTS[field](card, SCRIPT))
    found = shelf.verify(folder)
    assert found.serious
    assert any(finding.where.startswith(field.rstrip(".")) for finding in found.findings), (
        found.findings
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('x" onmouseover=alert(1) y="', "markup or script"),
        ("javascript:alert(1)", "markup or script"),
        ("&#60;b&#62;", "markup or script"),
        ("{{ config }}", "markup or script"),
        ("<img src=x>", "markup or script"),
        ("A\u202eB", "U+202E"),
        ("A\u200bB", "U+200B"),
        ("A\U000e0041B", "U+E0041"),
        ("A\x1b[31mB", "U+001B"),
        ("A\x00B", "U+0000"),
        ("A\nB", "U+000A"),
        ("A\ud800B", "unicode"),
        ("Ame\u0301lie", "composed form"),
        ("Z" + "\u0335\u0336\u0337\u0338" * 3, "combining marks"),
        (" A", "white space"),
        ("", "at least 1 character"),
        ("A" * 5_000, "at most 120 characters"),
    ],
)
def test_a_name_that_tricks_the_eye_is_refused(
    shelf: Shelf, folder: Path, text: str, words: str
) -> None:
    forge(folder, lambda card: card.update(name=text))
    refused(shelf.verify(folder), "schema", words)


def test_a_name_in_letters_that_only_look_latin_is_flagged(shelf: Shelf, folder: Path) -> None:
    forge(folder, lambda card: card.update(name="ОpenAI GРТ"))
    found = shelf.verify(folder)
    assert "mixes letters" in said(found, "look_alike").what
    assert not found.serious


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://example.org",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://me:secret@example.org",
            "https://x",
        ),
        *(
            "https://10.0.0.1/x",
            "https://wiki.internal",
            "https://examplе.org",
            "https://example.org/'x",
            "//example.org",
        ),
    ],
)
def test_an_address_that_is_no_public_page_is_refused(shelf: Shelf, folder: Path, url: str) -> None:
    forge(folder, lambda card: card.update(url=url))
    refused(shelf.verify(folder), "schema", "url: ")


@pytest.mark.parametrize(
    "slug", ["..", "../other", "thumb_rules", "Thumb-Rules", "thumb-rulеs", "a/b", "-x", ""]
)
def test_a_slug_that_is_no_plain_name_is_refused(shelf: Shelf, folder: Path, slug: str) -> None:
    forge(folder, lambda card: card.update(slug=slug))
    refused(shelf.verify(folder), "schema", "slug: ")


def _raw(old: str, new: str) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old.encode(), new.encode(), 1)


CARDS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "NaN": (_raw('"n": 12', '"n": NaN'), "NaN is no number in JSON"),
    "Infinity": (_raw('"n": 12', '"n": -Infinity'), "-Infinity is no number"),
    "1e999": (_raw('"n": 12', '"n": 1e999'), "1e999 is beyond the range"),
    "a number without end": (_raw('"n": 12', f'"n": {"9" * 9_000}'), "more than 16 digits"),
    "a key twice": (_raw('"format": 1,', '"format": 1, "format": 1,'), "'format' stands twice"),
    "bottomless lists": (lambda data: b"[" * 100_000, "inside one another"),
    "bottomless objects": (
        lambda data: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "inside one another",
    ),
    "deep settings": (
        _raw('"notes":', '"deep": ' + "[" * 50 + "]" * 50 + ', "notes":'),
        "more than 20 deep",
    ),
    "not UTF-8": (lambda data: b"\xff\xfe" + data, "not UTF-8"),
    "not JSON": (lambda data: b"import os", "not JSON"),
    "nothing": (lambda data: b"", "not JSON"),
}


@pytest.mark.parametrize("case", CARDS)
def test_a_card_that_readers_would_not_agree_about_is_refused(
    shelf: Shelf, folder: Path, case: str
) -> None:
    change, words = CARDS[case]
    (folder / CARD).write_bytes(change((folder / CARD).read_bytes()))
    refused(shelf.verify(folder), "card", words)


FORGED: dict[str, tuple[Card, str, str]] = {
    "an unknown key": (lambda card: card.update(rank=1), "schema", "rank: no such field"),
    "a list for a card": (lambda card: card.update(tracks=[]), "schema", "tracks: "),
    "another format": (lambda card: card.update(format=2), "schema", "format: "),
    "a day that is none": (
        lambda card: card.update(submitted="2026-02-30"),
        "schema",
        "submitted: ",
    ),
    "a negative n": (
        lambda card: card["tracks"]["task1"].update(n=-12),
        "schema",
        "tracks.task1.n: ",
    ),
    "a number in quotes": (
        lambda card: _score(card).update(value="0.5"),
        "schema",
        "tracks.task1.scores.f1.value",
    ),
    "true for a number": (
        lambda card: _score(card).update(n=True),
        "schema",
        "tracks.task1.scores.f1.n",
    ),
    "a negative cost": (
        lambda card: card["runs"][0]["calls"].update(cost=-1.0),
        "schema",
        "runs.0.calls.cost",
    ),
    "a seed that is none": (
        lambda card: card["runs"][0]["settings"].update(seed="x"),
        "schema",
        "seed must be",
    ),
    "endless repeats": (
        lambda card: card["runs"][0]["settings"].update(repeats=10**9),
        "schema",
        "repeats must be",
    ),
    "a wrong n": (lambda card: _score(card).update(n=11), "score", "printed 11, recomputed 12"),
    "a score off the scale": (
        lambda card: _score(card).update(value=1.7),
        "score",
        "printed 1.7, recomputed 0.",
    ),
    "an interval": (
        lambda card: _score(card).update(low=0.99),
        "score",
        "scores.f1.low: printed 0.99",
    ),
    "no interval": (lambda card: _score(card).pop("low") and None, "schema", "scores.f1.low: "),
    "a metric of its own": (
        lambda card: card["tracks"]["task1"]["scores"].update(best=_score(card)),
        "score",
        "tracks.task1.scores.best",
    ),
    "a metric left out": (
        lambda card: card["tracks"]["task1"]["scores"].pop("recall"),
        "score",
        "scores.recall",
    ),
    "a floor left out": (
        lambda card: card["tracks"]["task1"]["floors"].clear(),
        "score",
        "floors.floor/empty",
    ),
    "a lowered floor": (
        lambda card: card["tracks"]["task1"]["floors"]["floor/content-free"]["scores"]["f1"].update(
            value=-1.0
        ),
        "score",
        "floors.floor/content-free.scores.f1.value: printed -1",
    ),
    "hidden failures": (
        lambda card: card["tracks"]["task1"].update(failed_predictions={"x": 1}),
        "score",
        "failed",
    ),
    "a forged hash": (
        lambda card: card["tracks"]["task1"]["files"]["predictions"].update(sha256="0" * 64),
        "hash",
        "task1/predictions.jsonl: sha256: printed 000000000000",
    ),
    "forged rows": (
        lambda card: card["tracks"]["task1"]["files"]["scores"].update(rows=99),
        "hash",
        "task1/scores.jsonl: rows: printed 99, found 12",
    ),
    "a run that is not there": (
        lambda card: card["tracks"]["task1"].update(run=7),
        "run",
        "7, but there are 1 runs",
    ),
    "a run too many": (
        lambda card: card["runs"].append(card["runs"][0]),
        "run",
        "runs.1: no track is of this run",
    ),
    "a part of the split": (
        lambda card: card["runs"][0]["settings"].update(limit=3),
        "limit",
        "only a part",
    ),
    "a floor as a model": (
        lambda card: card["system"].update(model="floor/empty"),
        "kind_of_system",
        "of kind floor",
    ),
    "another judge": (
        lambda card: card["runs"][0]["judge"].update(judge="openai/gpt-9"),
        "fingerprint",
        "judge.id",
    ),
    "rubrics that are none": (
        lambda card: card["runs"][0]["judge"].update(rubrics="x"),
        "fingerprint",
        "rubrics",
    ),
    "a key": (
        lambda card: card["system"].update(settings={"header": "Bearer abcdefgh12345678"}),
        "leak",
        "system.settings.header: holds a key",
    ),
    "another folder's name": (
        lambda card: card.update(slug="other"),
        "slug",
        f"other, but the folder is {SLUG}",
    ),
    "a window that is none": (
        lambda card: card["tracks"]["task4_ability1"].update(conditions={"window": -1}),
        "identity",
        "conditions: ",
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_card_is_refused_though_its_checksum_fits(
    shelf: Shelf, folder: Path, case: str
) -> None:
    change, code, words = FORGED[case]
    forge(folder, change)
    refused(shelf.verify(folder), code, words)


def test_a_number_that_nothing_recomputes_is_guarded_by_the_checksum(
    shelf: Shelf, folder: Path
) -> None:
    card = card_of(folder)
    card["runs"][0]["calls"]["cost"] = 0.01
    write_card_of(folder, card)
    refused(shelf.verify(folder), "checksum", "changed after packing")


def test_paths_and_hosts_are_flagged(shelf: Shelf, folder: Path) -> None:
    forge(
        folder,
        lambda card: card["system"].update(settings={"weights": f"{HOME}/w", "at": "gpu.local"}),
    )
    found = [finding for finding in shelf.verify(folder).findings if finding.code == "leak"]
    assert {(finding.severity, finding.where) for finding in found} == {
        ("warning", "system.settings.weights"),
        ("warning", "system.settings.at"),
    }
