import json
from datetime import date, timedelta
from html import unescape

import pytest

from alps.errors import UsageError
from alps.ext.calibration.ask import LabelledJudge
from alps.ext.calibration.labels import read_labels
from alps.ext.calibration.page import write_calibration_page
from alps.ext.calibration.table import lines_of
from alps.judges.rubric import RubricQuestion, rubric
from tests.endtoend import rows, write_rows
from tests.ext.calibration.test_calibrate_live import (
    BINARY,
    answer,
    by_the_word,
    calibrate,
    found,
    twelve,
    write_labels,
)
from tests.label_folders import FIVE, binary, reports, write
from tests.loopback import Answer, serve
from tests.tracks import alps_here, met, payload_of

CHOSEN = "the pairs were chosen by a judge's verdicts and by similarity"
PAIR = {"gold": {"value": "Keeps bees"}, "predicted": {"value": "Keeps bees"}}


class Rater:
    """A judge that rates, and is never asked."""

    name, answers = "rater", frozenset({RubricQuestion})


def words(text):
    """Return a text without the breaks of its lines."""
    return " ".join(text.split())


def lexical(folder, *more):
    ran = alps_here(
        "calibrate", "judge=lexical", f"labels={folder / 'labels'}", f"out={folder / 'out'}", *more
    )
    assert "Traceback" not in ran.err
    return ran


def recorded(folder, *more):
    words = (f"labels={folder / 'labels'}", f"out={folder / 'out'}", "details=yes")
    ran = alps_here("calibrate", *words, *more)
    assert "Traceback" not in ran.err
    return ran


@pytest.mark.parametrize("random", [True, False])
def test_pairs_that_were_not_drawn_at_random_are_a_limit_on_terminal_and_page(tmp_path, random):
    folder = write_labels(tmp_path / "labels", {"matching": BINARY}, [("matching", PAIR, 1, 1)] * 4)
    (folder / "sample.json").write_text(json.dumps({"rubrics": {"matching": {"random": random}}}))
    ran = lexical(tmp_path)
    report = found(tmp_path)["rubrics"]["matching"]
    page = unescape((tmp_path / "out" / "calibration.html").read_text())
    told = [CHOSEN in words(text) for text in (ran.out, page)]
    assert told == [not random] * 2
    assert report["sample"] == {"random": random}
    assert report["verdict"] == "limits"


@pytest.mark.parametrize(
    "drawn", [[], {"rubrics": None}, {"rubrics": {"matching": "x"}}, "nonsense"]
)
def test_a_sample_that_nobody_drew_is_one_line_before_anything_is_asked(tmp_path, drawn):
    folder = write_labels(tmp_path / "labels", {"matching": BINARY}, [("matching", PAIR, 1, 1)])
    (folder / "sample.json").write_text(drawn if drawn == "nonsense" else json.dumps(drawn))
    assert "sample.json" in lexical(tmp_path).one_line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("values", "positive"), [([1, 0], 1), (["met", "not_met"], "met")])
def test_the_positive_one_of_two_values_is_written_last(tmp_path, values, positive):
    scale = {"kind": "nominal", "values": values}
    write(
        tmp_path / "labels",
        {"pa": scale | {"positive": [positive]}},
        [("pa", {"anna": positive}, positive)],
    )
    assert "write the positive value last" in recorded(tmp_path).one_line


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("pa", [1, 0]),
        ("pa", ["met", "not_met"]),
        ("pa", ["Yes", "no"]),
        ("matching", ["same", "unrelated"]),
    ],
)
def test_a_scale_that_would_turn_a_judge_round_is_refused(tmp_path, name, values):
    payload = PAIR if name == "matching" else answer("good")
    scale = {"kind": "nominal", "values": values}
    folder = write_labels(
        tmp_path / "labels", {name: scale}, [(name, payload, values[0], values[0])]
    )
    with pytest.raises(UsageError, match="put it last"):
        LabelledJudge(Rater(), read_labels(folder))


def test_words_and_other_numbers_in_the_right_order_are_taken(tmp_path):
    for number, values in enumerate((["not_met", "met"], [1, 2])):
        items = [("pa", answer(f"good {n}"), values[1], values[1]) for n in range(3)]
        items += [("pa", answer(f"poor {n}"), values[0], values[0]) for n in range(3)]
        name = f"labels{number}"
        write_labels(tmp_path / name, {"pa": {"kind": "nominal", "values": values}}, items)
        with serve(by_the_word) as server:
            assert calibrate(tmp_path, server.url, labels=name, out=f"out{number}").code == 0
        report = found(tmp_path, f"out{number}")["rubrics"]["pa"]
        assert [report[cell] for cell in ("tp", "fn", "fp", "tn")] == [3, 0, 0, 3]


def test_items_that_people_do_not_settle_are_a_limit(tmp_path):
    even = [binary(n % 2, n % 2) for n in range(20)]
    split = ("pa", {"anna": 1, "ben": 0}, 1)
    some = reports(write(tmp_path / "one", {"pa": BINARY}, [*even, split]))["pa"]
    many = reports(write(tmp_path / "many", {"pa": BINARY}, [*even, split, split]))["pa"]
    assert not any("tie" in reason for reason in some.reasons)
    assert "people's labels are tied on 2 of 22 items (9%), which are left out" in many.reasons
    assert "2 on which people tie (9%)" in dict(lines_of(many))["items"]


def test_copies_of_one_question_are_one_cluster_unless_they_have_their_own(tmp_path):
    def copies(**more):
        return [
            binary(n % 10 < 5, n % 10 < 4, payload={"response": f"said {n % 10}"}, **more)
            for n in range(60)
        ]

    same = reports(write(tmp_path / "same", {"pa": BINARY}, copies()))["pa"]
    own = [
        ("pa", given, said, more | {"cluster": f"c{n}"})
        for n, (_, given, said, more) in enumerate(copies())
    ]
    apart = reports(write(tmp_path / "own", {"pa": BINARY}, own))["pa"]
    bare = reports(
        write(tmp_path / "bare", {"pa": BINARY}, [binary(n % 2, n % 2) for n in range(20)])
    )["pa"]
    assert [report.details.clusters for report in (same, apart, bare)] == [10, 60, 20]
    wide, narrow = (report.figures["sensitivity"] for report in (same, apart))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_items_that_could_not_be_asked_about_stand_in_the_calibration_and_limit_it(tmp_path):
    twelve(tmp_path / "labels")

    def gone(body):
        return (
            Answer(status=400)
            if payload_of(body)["response"].endswith("number 2")
            else by_the_word(body)
        )

    with serve(gone) as server:
        assert calibrate(tmp_path, server.url).code == 1
        row = found(tmp_path)
        assert calibrate(tmp_path, server.url, "max_failures=20%").code == 0
    assert (row["unheard"], row["rubrics"]["pa"]["unheard"]) == (2, 2)
    assert "no response for 2 items" in row["rubrics"]["pa"]["reasons"]
    assert found(tmp_path)["unheard"] == 2
    assert "no response for 2 items" not in found(tmp_path)["rubrics"]["pa"]["reasons"]
    assert "items without a response from the judge: 2" in words(
        (tmp_path / "out" / "calibration.html").read_text()
    ).replace('<data value="2">2</data>', "2")


def test_a_calibration_that_is_resumed_is_as_old_as_its_oldest_verdict(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", "off")
    twelve(tmp_path / "labels")
    journal = tmp_path / "out" / "verdicts.jsonl"
    old = (date.today() - timedelta(days=200)).isoformat()
    with serve(by_the_word) as server:
        calibrate(tmp_path, server.url)
        assert found(tmp_path)["made"] == date.today().isoformat()
        kept = rows(journal)[:6]
        write_rows(journal, (row | {"day": old} for row in kept))
        ran = calibrate(tmp_path, server.url)
        assert len(server.requests) == 18
    assert found(tmp_path)["made"] == old
    assert found(tmp_path)["expires"] < date.today().isoformat()
    assert [row["day"] for row in rows(journal)] == [old] * 6 + [date.today().isoformat()] * 6
    assert "The calibration expired on" in ran.out


def test_another_endpoint_is_refused_in_the_same_folder(tmp_path):
    twelve(tmp_path / "labels")
    with serve(by_the_word) as server, serve(lambda body: met("met")) as other:
        calibrate(tmp_path, server.url)
        assert "settings.judge_api_base" in calibrate(tmp_path, other.url).one_line
        assert not other.requests


def test_rows_of_the_journal_that_are_no_verdicts_are_asked_for_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CACHE", "off")
    twelve(tmp_path / "labels")
    journal = tmp_path / "out" / "verdicts.jsonl"
    damage = [
        {"outcome": None},
        {"outcome": "hm"},
        {"item_id": ["i2"]},
        {"draws": None},
        {"draws": [7]},
        {"verdict": 77},
    ]
    damage += [
        {"verdict": [1]},
        {"verdict": None},
        {"judge": "another"},
        {"day": None},
        {"day": "2999-01-01"},
    ]
    with serve(by_the_word) as server:
        calibrate(tmp_path, server.url)
        first = rows(journal)
        damaged = [row | wrong for row, wrong in zip(first, [*damage, {}], strict=True)]
        write_rows(journal, damaged)
        assert calibrate(tmp_path, server.url).code == 0
        assert len(server.requests) == 12 + len(damage)
    assert rows(journal) == first


def test_two_rubrics_of_ones_own_with_one_id_are_refused(tmp_path):
    folder = write_labels(tmp_path / "labels", {"tone": BINARY}, [("tone", answer("good"), 1, 1)])
    (folder / "rubrics").mkdir()
    for name in ("curt", "tone"):
        (folder / "rubrics" / f"{name}.md").write_text(
            f"<!-- id: mine/1 -->\nMet if it has {name}.\n"
        )
    said = lexical(tmp_path).one_line
    assert "curt.md" in said
    assert "tone.md" in said
    assert "mine/1" in said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\xff\xfe", "tone.md: not UTF-8"),
        (f"<!-- id: {rubric('pa').id} -->\nMet.".encode(), "the built-in rubric pa.md"),
        (None, "can't be read"),
    ],
)
def test_a_rubric_of_ones_own_that_can_not_be_used_is_named(tmp_path, raw, said):
    folder = write_labels(tmp_path / "labels", {"tone": BINARY}, [("tone", answer("good"), 1, 1)])
    file = folder / "rubrics" / "tone.md"
    file.parent.mkdir()
    file.mkdir() if raw is None else file.write_bytes(raw)
    assert said in (line := lexical(tmp_path).one_line)
    assert "tone.md" in line


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ei", "ei_resonation, ei_expression, ei_reception"),
        ("payload", "is taken"),
        ("support", "is taken"),
        ("../../README", "not a valid file name"),
        ("a/b", "not a valid file name"),
        ("x\0y", "not a valid file name"),
        ("brief", "write them to rubrics/brief.md"),
    ],
)
def test_a_rubric_that_a_judge_has_no_instructions_for_is_one_line(tmp_path, name, said):
    folder = write_labels(tmp_path / "labels", {name: BINARY}, [(name, answer("good"), 1, 1)])
    with pytest.raises(UsageError) as caught:
        LabelledJudge(Rater(), read_labels(folder))
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_label_folder_is_not_written_into(tmp_path):
    folder = twelve(tmp_path / "labels")
    verdicts = [{"item_id": f"i{n}", "judge": "old", "verdict": int(n < 6)} for n in range(12)]
    write_rows(folder / "verdicts.jsonl", verdicts)
    before = sorted(path.name for path in folder.iterdir())
    for judge in ("old", "lexical"):
        ran = alps_here(
            "calibrate", f"judge={judge}", f"labels={folder}", f"out={tmp_path / '.' / 'labels'}"
        )
        assert "is a label folder" in ran.one_line
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_calibration_counts_for_ten_years_at_most(tmp_path):
    twelve(tmp_path / "labels")
    assert "valid_days" in lexical(tmp_path, "valid_days=99999999").one_line


@pytest.mark.parametrize(
    ("largest", "mend"),
    [(10**9, ""), (1e200, "choose another unit"), (10**400, "choose another unit")],
)
def test_a_scale_of_large_numbers_has_a_page_and_one_of_immense_ones_is_refused(
    tmp_path, largest, mend
):
    scale = {"kind": "interval", "values": [0, 1, largest]}
    given = [
        ("pa", {"anna": value, "ben": value}, said)
        for value in (0, 1, largest)
        for said in (0, 1, largest)
    ]
    write(tmp_path / "labels", {"pa": scale}, given)
    ran = recorded(tmp_path)
    assert mend in ran.one_line if mend else ran.code == 0
    assert (tmp_path / "out" / "calibration.html").is_file() == (not mend)


@pytest.mark.parametrize("error", [1e12, 1e200, 1.7e308])
def test_a_page_of_immense_errors_is_drawn(tmp_path, error):
    mae = {"value": error, "low": 0.0, "high": error, "n": 3}
    row = {"rubrics": {"pa": {"n": 3, "verdict": "limits", "mae": mae}}}
    assert "mean absolute error" in write_calibration_page(row, tmp_path / "page.html").read_text()


def test_few_items_on_which_people_agree_are_not_called_chance(tmp_path):
    few = reports(
        write(tmp_path / "few", {"pa": BINARY}, [binary(n < 1, n < 1) for n in range(5)])
    )["pa"]
    assert few.figures["people_kappa"].value == 1
    assert not any("by chance" in reason for reason in few.reasons)

    def differ(both, apart):
        """Two people who say the same of `both` items, half of them good, and else the opposite."""
        rows = [
            ("pa", {"anna": n % 2, "ben": n % 2, f"cleo{n}": n % 2}, n % 2) for n in range(both)
        ]
        return rows + [
            ("pa", {"anna": n % 2, "ben": 1 - n % 2, f"dora{n}": n % 2}, n % 2)
            for n in range(apart)
        ]

    unsure = reports(write(tmp_path / "unsure", {"pa": BINARY}, differ(6, 4)))["pa"]
    never = reports(write(tmp_path / "never", {"pa": BINARY}, differ(4, 8)))["pa"]
    assert "people may agree no better than by chance (kappa .20)" in unsure.reasons
    assert "people agree with each other no better than by chance (kappa -.33)" in never.reasons


def test_how_far_people_agree_does_not_hang_on_the_order_of_their_labels(tmp_path):
    people = {"anna": [0, 0, 1, 1, 0, 1], "ben": [0, 0, 1, 1, 1, 1], "cleo": [1, 0, 1, 0, 0, 1]}

    def ceiling(*names):
        given = [{who: people[who][n] for who in names} for n in range(6)]
        folder = write(
            tmp_path / "-".join(names), {"pa": BINARY}, [("pa", row, row["anna"]) for row in given]
        )
        return reports(folder)["pa"].figures["people_kappa"]

    first = ceiling("anna", "ben", "cleo")
    assert first.value == pytest.approx((2 / 3 + 1 / 3 + 0) / 3)
    assert first.n == 6
    assert ceiling("cleo", "anna", "ben").value == pytest.approx(first.value)
    assert ceiling("ben", "cleo", "anna").value == pytest.approx(first.value)


def test_a_kind_whose_verdicts_can_not_be_parsed_is_shown(tmp_path):
    silent = [binary(0, None, kind="injection") for _ in range(5)]
    rest = [binary(n % 2, n % 2, kind="[red]vague\x1b") for n in range(8)]
    folder = write(tmp_path / "labels", {"pa": BINARY}, silent + rest)
    ran = recorded(tmp_path)
    kinds = reports(folder)["pa"].row()["acceptance"]
    assert (kinds["injection"]["n"], kinds["injection"]["unparsed"]) == (0, 5)
    lines = ran.out.splitlines()
    assert next(line for line in lines if "injection" in line).split() == ["injection", *"00––05"]
    assert any("[red]vague␛" in line for line in lines)
    assert "\x1b" not in ran.out
    assert max(len(line) for line in lines if not line.startswith(("Page", "Next"))) <= 80
    page = (tmp_path / "out" / "calibration.html").read_text()
    assert "injection" in page
    assert "not parsed" in page


def test_what_is_accepted_says_on_how_many_items_and_a_kappa_of_one_has_no_interval(tmp_path):
    marks = [("ei", {"anna": 1 + n % 5, "ben": 1 + n % 5}, 1 + n % 5) for n in range(20)]
    folder = write(tmp_path / "labels", {"ei": FIVE | {"positive": [4, 5]}}, marks)
    accepted = dict(lines_of(reports(folder)["ei"]))["accepted"]
    assert "(n 8)" in accepted
    assert "(n 12)" in accepted
    ran = recorded(tmp_path)
    kappa = next(
        line for line in ran.out.splitlines() if line.strip().startswith("kappa with people")
    )
    assert kappa.split()[-3:] == ["1.000", "–", "20"]
    assert "[1.000, 1.000]" not in ran.out
    assert "[1.000, 1.000]" not in (tmp_path / "out" / "calibration.html").read_text()


def test_answers_that_are_known_are_not_said_to_be_peoples(tmp_path):
    words = ("judge=lexical", "labels=stress", "details=yes")
    known = alps_here("calibrate", *words, f"out={tmp_path / 'stress'}")
    write(
        tmp_path / "labels",
        {"pa": BINARY},
        [binary(n % 2, n % 2, kind="odd" if n % 2 else "even") for n in range(9)],
    )
    people = recorded(tmp_path)
    said = [
        line.split()[0]
        for line in known.out.splitlines()
        if line.startswith((" known labels", " judge's labels", " people's labels"))
    ]
    assert said == ["known", "judge's"]
    assert " people's labels" in people.out


def test_a_page_of_a_kind_without_a_verdict_stands_beside_older_ones(tmp_path):
    kinds = {
        "old": {"n": 2, "right": 1, "accepted": 1},
        "silent": {"n": 0, "right": 0, "accepted": 0, "unparsed": 3},
    }
    row = {"rubrics": {"pa": {"n": 2, "verdict": "limits", "acceptance": kinds}}}
    page = write_calibration_page(row, tmp_path / "page.html").read_text()
    assert "silent" in page
    assert '<data value="3">3</data> not parsed' in page
