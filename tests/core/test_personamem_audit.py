"""`alps data audit` on PersonaMem's files: published, generated, and with leaks put into them."""

import json
import shutil

import pytest

from alps.tasks.personamem.personas import write_set
from tests.persona_runs import PUBLISHED, published, read_table, write_table

HISTORIES = "shared_contexts_32k.jsonl"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("personas")
    write_set(folder, personas=4, size="32k", seed=3)
    return folder


def audited(alps, folder, *words):
    """Return the report, and by code and severity the most questions that it was found in."""
    done = alps("data", "audit", f"data={folder}", "format=json", *words)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == int(report["serious"])
    found = {}
    for one in report["findings"]:
        key = one["code"], one["severity"]
        found[key] = max(one["count"], found.get(key, 0))
    return report, found


@published
def test_the_leaks_of_the_published_set_are_found(alps):
    report, found = audited(alps, PUBLISHED)
    assert (report["split"], report["tracks"]) == (
        "32k",
        [{"track": "32k", "rows": 589, "with_gold": 589}],
    )
    leaks = [one for one in report["findings"] if one["code"] == "length-leak"]
    assert {one["severity"] for one in leaks} == {"serious"}
    shares = {(one["count"], one["of"]): one["detail"] for one in leaks}
    assert set(shares) == {(57, 57), (93, 99), (14, 17), (34, 55), (92, 93)}
    assert "the longest option of generalizing_to_new_scenarios" in shares[57, 57]
    assert "the shortest option of suggest_new_ideas" in shares[92, 93]
    del found["length-leak", "serious"]
    assert found == {
        ("equal-options", "serious"): 17,
        ("question-in-history", "serious"): 1,
        ("missing-history", "serious"): 572,  # the sample has the histories of one persona
        ("duplicate-question", "warning"): 189,
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nothing_serious_is_found_in_a_generated_set(alps, tmp_path, seed, language):
    write_set(tmp_path / "made", personas=30, size="32k", seed=seed, language=language)
    report, found = audited(alps, tmp_path / "made")
    assert report["tracks"][0]["rows"] == 1050
    assert set(found) <= {("duplicate-message", "note")}, found


def spoiled(made, tmp_path, spoil=lambda place, row, options, gold: None):
    """Return a folder whose questions went through `spoil`, which takes the place, the row, its
    options without their letters, and the place of the right one.
    """
    folder = tmp_path / "spoiled"
    folder.mkdir()
    (folder / HISTORIES).symlink_to(made / HISTORIES)
    rows = read_table(made / "questions_32k.csv")
    for place, row in enumerate(rows):
        options = [text[4:] for text in json.loads(row["all_options"])]
        spoil(place, row, options, "abcd".index(row["correct_answer"][1]))
        lettered = zip("abcd", options, strict=True)
        row["all_options"] = json.dumps([f"({letter}) {text}" for letter, text in lettered])
    write_table(folder / "questions_32k.csv", rows)
    return folder


def lengthen_gold(place, row, options, gold):
    if row["question_type"] == "suggest_new_ideas":
        options[gold] += " and so on"


def always_b(place, row, options, gold):
    options[gold], options[1] = options[1], options[gold]
    row["correct_answer"] = "(b)"


def number_tells(place, row, options, gold):
    row["question_id"] = f"q{4 * place + gold}"


def topic_tells(place, row, options, gold):
    row["topic"] = row["correct_answer"]


def message_tells(place, row, options, gold):
    if place == 5:
        row["user_question_or_message"] += options[gold]


def equal_options(place, row, options, gold):
    if place < 3:
        options[(gold + 1) % 4] = options[gold]
    elif place < 5:
        options[(gold + 1) % 4] = options[(gold + 2) % 4]


def other_history(place, row, options, gold):
    if place == 7:
        row["shared_context_id"] = "0" * 64
    elif place == 8:
        row["end_index_in_shared_context"] = "100000"


def broken(place, row, options, gold):
    if place in (2, 3):
        row["correct_answer"] = "(e)"


def asked_again(place, row, options, gold):
    if place in (1, 2):
        row["user_question_or_message"], row["topic"] = "The same?", "tea"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("spoil", "code", "severity", "count"),
    [
        (lengthen_gold, "length-leak", "serious", 20),
        (always_b, "letter-leak", "serious", 140),
        (number_tells, "id-leak", "serious", 140),
        (topic_tells, "column-leak", "serious", 140),
        (message_tells, "gold-in-message", "serious", 1),
        (equal_options, "equal-options", "serious", 3),
        (equal_options, "equal-options", "warning", 2),
        (other_history, "missing-history", "serious", 2),
        (broken, "unreadable-row", "serious", 2),
        (asked_again, "duplicate-question", "warning", 1),
    ],
)
def test_what_is_put_in_is_found(alps, tmp_path, made, spoil, code, severity, count):
    found = audited(alps, spoiled(made, tmp_path, spoil))[1]
    assert found.pop((code, severity)) >= count
    assert {other for other, worst in found if worst == "serious"} <= {code}


def test_a_slice_that_is_cut_one_message_too_late_is_found(alps, tmp_path, made):
    first, *rest = (made / HISTORIES).read_text().splitlines()
    [(name, messages)] = json.loads(first).items()
    row = next(
        row
        for row in read_table(made / "questions_32k.csv")
        if row["shared_context_id"] == name
        and row["end_index_in_shared_context"] == str(len(messages))
    )
    asked = {"role": "user", "content": f"User: {row['user_question_or_message']}"}
    folder = spoiled(made, tmp_path)
    (folder / HISTORIES).unlink()
    late = json.dumps({name: [*messages[:-1], asked]})
    (folder / HISTORIES).write_text("\n".join([late, *rest]) + "\n")
    assert audited(alps, folder)[1]["question-in-history", "serious"] == 1


def test_questions_without_any_history_are_audited_and_say_so(alps, tmp_path, made):
    folder = spoiled(made, tmp_path)
    (folder / HISTORIES).unlink()
    report = audited(alps, folder)[0]
    assert not report["serious"]
    assert report["unchecked"] == ["32k: the histories, because their file is missing"]


def test_a_table_names_the_findings(alps, tmp_path, made):
    done = alps("data", "audit", f"data={spoiled(made, tmp_path, always_b)}")
    assert done.returncode == 1
    assert "letter-leak: the gold is option (b) in all types (by chance 25%, p = " in done.stdout
    assert "140 of 140 questions" in done.stdout
    done = alps("data", "audit", f"data={made}")
    assert done.returncode == 0
    assert "Nothing serious" in done.stdout


def test_every_size_of_a_folder_is_audited_and_one_can_be_named(alps, tmp_path, made):
    folder = spoiled(made, tmp_path)
    shutil.copy(folder / "questions_32k.csv", folder / "questions_128k.csv")
    for words, found in (((), ["32k", "128k"]), (("split=128k",), ["128k"])):
        assert [one["track"] for one in audited(alps, folder, *words)[0]["tracks"]] == found
    done = alps("data", "audit", f"data={folder}", "split=1M")
    assert done.returncode == 2
    assert done.stderr.endswith("(found: 32k, 128k)\n")
