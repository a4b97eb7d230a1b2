"""The pages of the site, out of made-up submissions: every number has its origin, and hostile words
are words.
"""

import csv
import http.client
import io
import json
import re
import shutil
import socket
import struct
import tomllib
from collections import Counter
from contextlib import closing
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from markupsafe import Markup, escape

from alps.errors import DataError, UsageError
from alps.extension import Extension, extensions
from alps.judges.embedded import AGREEMENT
from alps.leaderboard import parts
from alps.leaderboard import site as site_module
from alps.leaderboard.commands import build_command
from alps.leaderboard.comparison import all_pairs, rank_classes
from alps.leaderboard.gold_data import own_track
from alps.leaderboard.pages import systems
from alps.leaderboard.pages.board_table import BoardColumn, foreign
from alps.leaderboard.parts import BoardPart
from alps.leaderboard.references import read_references
from alps.leaderboard.site import build, check_site, serve
from alps.leaderboard.site_data import OFFICIAL, judged_by, official
from alps.settings import RunSettings, parse_words
from alps.show.formatting import number, visible
from alps.show.spreadsheets import csv_of, plain_cell
from alps.stats.paired import holm, paired_difference
from tests.endtoend import write_rows
from tests.loopback import running
from tests.made_submissions import synthesise
from tests.pages import Page
from tests.site_made import HOSTILE, Tree, pages_of, tree_of
from tests.site_origins import Origins, reads_as
from tests.submissions import boards_in, changed, forge, page_in, said

TEMPLATES = Path(site_module.__file__).with_name("templates")


@pytest.fixture(scope="module")
def origins(submissions):
    return Origins(submissions)


def board_rows(folder, name):
    return json.loads((folder / "site" / "data" / f"{name}.json").read_text("utf-8"))["rows"]


def boards_of(site):
    found = json.loads((site / "data" / "boards.json").read_text("utf-8"))["boards"]
    return {board["id"]: board for board in found}


@pytest.mark.release
def test_every_number_on_every_page_is_derived_again_from_the_files(site, origins):
    boards, seen, computed = boards_of(site), 0, set()
    for path, page in pages_of(site):
        for held, shown in page.numbers:
            if "data-from" in held:
                value = origins.at(held["data-from"])
                assert json.loads(held["value"]) == value, (path, held)
                assert reads_as(shown, value), (path, held, shown)
            else:
                name, args = held["data-computed"], held["data-args"].split()
                value = origins.computed(name, boards, *args)
                value, words = value if isinstance(value, tuple) else (value, f"{value:,}")
                assert (held["value"], shown) == (str(value), words), (path, held)
                computed.add(name)
            seen += 1
        named = [held.get("data-from", "") for held, _ in page.numbers]
        for place, origin in enumerate(named):  # the ends of an interval stand in their order
            if origin.endswith("/low"):
                assert named[place + 1] == f"{origin.removesuffix('low')}high", (path, origin)
    assert seen > 5_000
    known = {name[1:] for name in vars(Origins) if name[0] == "_" and name[1] not in "_m"}
    assert computed == known - {"ranks", "on"}


def test_no_number_stands_on_a_page_without_its_origin(site):
    labels = r"F1|(?:recall|retrieval)@\d+|1–5|95 %|Table 2 of the paper|GPT-4\.1-mini|ability\d"
    labels += r"|\d+ distractors|Mem0's lenient judge, categories 1-4"
    named = (official().data, official().judge)
    labels = "|".join((labels, *map(re.escape, named)))
    for path, page in pages_of(site):
        rest = re.sub(labels, "", page.bare, flags=re.IGNORECASE)
        assert not re.search(r"\d", rest), (path, re.findall(r".{0,20}\d.{0,20}", rest))


def test_scores_by_record_are_those_of_the_files_of_their_columns(site, submissions):
    page = (site / "compare" / "task1-f1-fcfd1f1c.html").read_text("utf-8")
    files = re.findall(r'<th [^>]*data-from="([^"]+)"', page)
    assert len(files) == 4
    for column, file in enumerate(files, start=1):
        rows = map(json.loads, (submissions / file).read_text("utf-8").splitlines())
        scores = {row["benchmark_id"]: number(row["scores"]["f1"]) for row in rows}
        cells = rf'<td class="c{column}"><a href="[^"]*/([^/"]+)\.html#[^"]+">([^<]+)</a>'
        assert dict(re.findall(cells, page)) == scores


def test_no_number_is_typed_in_a_template():
    for path in sorted(TEMPLATES.rglob("*.html")):
        code = r"\{%.*?%\}|\{\{.*?\}\}|<svg.*?</svg>|<[^>]*>"
        written = re.sub(code, "", path.read_text("utf-8"), flags=re.DOTALL)
        assert not re.search(r"\d", written.replace("F1", "")), path


def one_track(submissions, to, slug="system-001", change=lambda track: None):
    """Copy a submission with its first track alone, and change that; return the folder above."""
    folder = to / "submissions" / slug
    shutil.copytree(submissions / slug / "task1", folder / "task1")
    shutil.copy(submissions / slug / "submission.json", folder)

    def cut(card):
        card["tracks"] = {"task1": card["tracks"]["task1"]}
        change(card["tracks"]["task1"])

    forge(folder, cut)
    return folder.parent


def test_another_number_in_a_submission_is_another_number_on_the_page(submissions, tmp_path):
    sent = one_track(submissions, tmp_path, change=changed("scores.f1.value", 0.123456))
    page = Tree(page_in(sent, tmp_path / "site"))
    origin = "system-001/submission.json#/tracks/task1/scores/f1/value"
    assert ({"value": "0.123456", "data-from": origin}, ".123") in page.numbers


def test_every_link_leads_somewhere_in_the_site_and_nothing_is_fetched_from_elsewhere(site):
    for path, page in pages_of(site):
        for tag, held in page.elements:
            for name in ("href", "src", "action", "srcset", "data", "poster"):
                link = held.get(name)
                if link is None:
                    continue
                if link.startswith("https://"):
                    assert (tag, name) == ("a", "href"), (path, link)
                    assert "noopener" in held["rel"]
                    continue
                assert not urlsplit(link).scheme, (path, link)
                assert not link.startswith("/"), (path, link)
                place, fragment = unquote(urlsplit(link).path), urlsplit(link).fragment
                target = (path.parent / place).resolve() if place else path
                assert target.is_file(), (path, link)
                ids = {found.get("id") for _, found in tree_of(target).elements if fragment}
                assert not fragment or fragment in ids, (path, link)
    for name in ("site.css", "site.js"):
        asset = (site / "assets" / name).read_text("utf-8")
        assert not re.search(r"https?:|//\w+\.\w|@import|url\(", asset), name


def test_pages_hold_nothing_that_could_run(site):
    for path, page in pages_of(site):
        assert [held["src"].split("assets/")[1] for held in page.all("script")] == ["site.js"], path
        attributes = {name for _, held in page.elements for name in held}
        assert not [name for name in attributes if name.startswith("on") or name == "style"], path
        assert not page.all("img"), path
        ids = [held["id"] for _, held in page.elements if "id" in held]
        assert len(ids) == len(set(ids)), path


def test_hostile_words_are_shown_as_words(site):
    assert foreign(f"{HOSTILE}\u202e") == f"<bdi>{escape(visible(HOSTILE))}</bdi>"
    for path in (site / "records").rglob("*.html"):
        assert HOSTILE not in path.read_text("utf-8"), path
    record = next(path for path in (site / "records" / "task4_ability1").glob("*.html"))
    text = record.read_text("utf-8")
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=" in text
    assert "\u202e" not in text
    assert "\x00" not in text
    assert HOSTILE not in text
    page = (site / "systems" / "hostile.html").read_text("utf-8")
    assert "=HYPERLINK(&#34;javascript&#34;) &amp; «co»" in page


def test_downloads_hold_no_formula_and_no_markup(site):
    for path in (site / "data").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        for cell in [cell for row in rows for cell in row]:
            assert cell[:1] not in ("=", "+", "@"), path
            assert cell[:1] != "-" or is_number(cell), path
        assert len({len(row) for row in rows}) == 1
        # The separators of other countries are quoted, too.
        for line in path.read_text("utf-8").splitlines():
            assert line.startswith('"')
            assert line.endswith('"')
    texts = [path.read_text("utf-8") for path in (site / "data").glob("*.json")]
    assert not [text for text in texts if set(text) & set("<>&\u2028")]
    names = [row["name"] for text in texts for row in json.loads(text).get("rows", ())]
    assert '=HYPERLINK("javascript") & «co»' in names


def is_number(cell):
    return re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", cell) is not None


CELLS = {
    "=1+1": "'=1+1",
    " @x": "' @x",
    "\t-1": "'\t'-1",
    "＝1": "'＝1",
    "a;-1": "a;'-1",
    "\u200b=1": "'\u200b=1",
    "\u3000﹢1": "'\u3000﹢1",
    "\u3164@x": "'\u3164@x",
    "plain": "plain",
    "a; b": "a; b",
    "a=1": "a=1",
    -0.5: "-0.5",
    None: "",
}


@pytest.mark.parametrize(("given", "written"), CELLS.items())
def test_cells_that_a_spreadsheet_would_run_are_quoted(given, written):
    assert plain_cell(given) == written


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_no_cell_is_a_formula_whatever_a_spreadsheet_parts_cells_at(separator):
    texts = ["a{}=1+1", 'b{}"=2"{}c', "d{} ＝3", '"{}\u200b@x', "e"]
    rows = []
    for text in [text.replace("{}", separator) for text in texts]:
        rows.append({"name": text, "org": text[::-1], "n": -0.5})
    read = csv.reader(io.StringIO(csv_of(rows), newline=""), delimiter=separator)
    cells = [cell for row in read for cell in row]
    assert len(cells) > len(texts)
    for cell in cells:
        assert cell.lstrip(' \t"\u200b')[:1] not in ("=", "@", "+", "＝"), cell
    written = csv_of([{"name": "a;b", "org": "a\tb", "n": 1}]).splitlines()[1]
    assert written == '"a;b","a\tb","1"'


def test_another_judge_and_other_data_are_other_boards(site):
    found = set()
    for board in boards_of(site).values():
        if board["track"] == "task1":
            found.add((board["data_sha256"] == "f" * 64, board["judge_fingerprint"]))
    one, other = "0a1b2c3d4e5f", "f5e4d3c2b1a0"
    assert found == {(False, one), (False, other), (True, other)}
    retrieval = [board for board in boards_of(site).values() if board["track"] == "task3_d100"]
    assert [board["judge_fingerprint"] for board in retrieval] == [None]


def test_floors_and_what_the_paper_reports_stand_apart_and_have_no_rank(site):
    page = tree_of(site / "extraction.html")
    bodies = {held["class"] for held in page.all("tbody") if "class" in held}
    assert {"ranked", "floors", "reported"} <= bodies
    text = (site / "extraction.html").read_text("utf-8").partition('<tbody class="floors">')[2]
    floors = text.partition("</tbody>")[0]
    assert ("whisker floor" in floors, "whisker reported" in floors) == (True, False)
    ranks = [held for held, _ in page.numbers if held.get("data-computed") == "rank"]
    ranked = {held["data-args"].split()[1] for held in ranks}
    assert "a-floor" not in ranked
    assert "system-001" in ranked
    boards = [json.loads(path.read_text("utf-8")) for path in (site / "data").glob("task1-*.json")]
    rows = [row for board in boards for row in board["rows"]]
    assert {row["section"] for row in rows if row.get("rank_best")} == {"ranked"}
    floors = {row["name"] for row in rows if row["section"] == "floor"}
    assert floors >= {"floor/of-mine", "floor/made-up"}


def test_a_system_below_a_baseline_of_its_board_is_marked(site, submissions):
    cards = {}
    for path in submissions.glob("*/submission.json"):
        cards[path.parent.name] = json.loads(path.read_text("utf-8"))["tracks"].get("task1")
    baseline = cards["a-floor"]["scores"]["f1"]["value"]
    data, judge = cards["a-floor"]["data_sha256"], cards["a-floor"]["judge_fingerprint"]
    for card in cards.values():
        alike = card and (card["data_sha256"], card["judge_fingerprint"]) == (data, judge)
        for floor in card["floors"].values() if alike else ():
            baseline = max(baseline, floor["scores"]["f1"]["value"])
    page = (site / "extraction.html").read_text("utf-8")
    marked = {}
    for row in page.split("<tr")[1:]:
        for slug in cards:
            if f'systems/{slug}.html"' in row and 'data-computed="rank"' in row:
                marked[slug] = "below a trivial baseline" in row
    assert True in marked.values()
    assert marked == {slug: cards[slug]["scores"]["f1"]["value"] < baseline for slug in marked}


def test_data_that_are_not_here_are_shown_as_figures_alone(site):
    text = "".join(path.read_text("utf-8") for path in (site / "records").rglob("*.html"))
    assert "systems/system-001.html" in text
    assert "systems/hidden-test.html" not in text
    assert "scores only" in (site / "changes.html").read_text("utf-8")


def test_a_system_page_tells_what_is_not_known_and_what_was_judged_again(site):
    unpriced = (site / "systems" / "system-000.html").read_text("utf-8")
    assert 'data-from="system-000/submission.json#/runs/0/calls/cost"' not in unpriced
    assert '<span class="nothing">–</span>' in unpriced
    reviewed = (site / "systems" / "system-003.html").read_text("utf-8")
    again = "system-003/review.json#/tracks/task1/scores/f1/value"
    assert f'data-from="{again}">.250</data>' in reviewed
    assert 'class="status re-scored"' in reviewed


def test_replies_from_a_cache_do_not_make_a_system_cheap(tmp_path):
    synthesise(tmp_path / "sent", 5, tracks=["task1"])
    paid_before = {"http": 0, "cached": 550, "cost": 0.0, "prompt_tokens": 0}
    # Twenty that the run itself had paid for: its own cost is known.
    asked_twice = {"http": 400, "cached": 20}
    for name, counts in (("system-003", paid_before), ("system-001", asked_twice)):
        change = changed("runs.0.calls", lambda made, own=counts: made | own)
        forge(tmp_path / "sent" / name, change)
    build(tmp_path / "sent", tmp_path / "site")
    page = (tmp_path / "site" / "extraction.html").read_text("utf-8")
    marked = [row for row in page.split("<tr")[1:] if ">cached<" in row]
    assert [row.count(">cached<") for row in marked] == [2]
    assert "systems/system-003.html" in marked[0]
    rows = [row for name in boards_of(tmp_path / "site") for row in board_rows(tmp_path, name)]
    costs = {row["slug"]: (row["cost"], row["prompt_tokens"]) for row in rows if "cost" in row}
    assert costs["system-003"] == (None, None)
    assert None not in costs["system-001"]
    chart = (tmp_path / "site" / "index.html").read_text("utf-8").partition('id="costs"')[2]
    assert "Pareto front" in chart
    assert "system-003" not in chart


def test_the_embedded_judge_is_told_what_it_is_worth(tmp_path, submissions):
    lexical = {"judge": "lexical", "comparable": False}
    sent = one_track(submissions, tmp_path, change=lambda track: track.update(lexical))
    out = build(sent, tmp_path / "site").out
    assert AGREEMENT in (out / "judges" / "0a1b2c3d4e5f.html").read_text("utf-8")
    assert "debugging only" in (out / "extraction.html").read_text("utf-8")
    assert "There is no submission yet. To be" in (out / "retrieval.html").read_text("utf-8")


def test_a_judge_page_shows_the_calibration_of_that_very_judge(submissions, tmp_path, monkeypatch):
    judge = {"judge": "openai/judge-2026-01-01"}
    kappa = {"value": 0.671, "low": 0.5, "high": 0.829, "n": 83}
    rubric = {"kind": "nominal", "n": 83, "kappa": kappa, "verdict": "limits"}
    rubric |= {"reasons": ["38 items for <sensitivity>"]}
    row = {**judge, "judge_fingerprint": judge, "pinned": True, "made": "2026-10-01"}
    row |= {"expires": "2027-03-30", "rubrics": {"pa": rubric}}
    (tmp_path / "calibrations").mkdir()
    (tmp_path / "calibrations" / "of-pa.json").write_text(json.dumps(row), "utf-8")
    monkeypatch.setattr(systems, "CALIBRATIONS", tmp_path / "calibrations")
    sent = one_track(submissions, tmp_path)
    shutil.copytree(submissions / "system-000", sent / "system-000")
    out = build(sent, tmp_path / "site").out
    page = (out / "judges" / "0a1b2c3d4e5f.html").read_text("utf-8")
    origin = "judges/calibrations/of-pa.json#/rubrics/pa"
    assert f'<data value="0.671" data-from="{origin}/kappa/value">.671</data>' in page
    assert f'<data value="83" data-from="{origin}/n">83</data>' in page
    assert 'class="badge limits"' in page
    assert "38 items for &lt;sensitivity&gt;" in page
    assert origin not in (out / "judges" / "f5e4d3c2b1a0.html").read_text("utf-8")


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_rank_classes_of_all_pairs_at_once_are_those_of_one_pair_after_another(missing):
    generator = np.random.default_rng(3)
    clusters = [f"s{n}" for n in generator.integers(0, 12, size=40)]
    scores = generator.random((6, 40)) + np.linspace(0, 0.6, 6)[:, None]
    scores[5] = scores[4]
    scores[generator.random(scores.shape) < missing] = np.nan
    pairs = list(combinations(range(6), 2))
    found = []
    for one, other in pairs:
        both = ~np.isnan(scores[one]) & ~np.isnan(scores[other])
        of_both = [name for name, keep in zip(clusters, both, strict=True) if keep]
        found.append(paired_difference(scores[one][both], scores[other][both], of_both))
    ahead, ps = all_pairs(scores, clusters)
    differences = [difference.estimate.value for difference in found]
    each_p = [difference.p for difference in found]
    assert [ahead[pair] for pair in pairs] == pytest.approx(differences)
    assert [ps[pair] for pair in pairs] == pytest.approx(each_p, rel=1e-9)
    apart = [p <= 0.05 for p in holm(each_p)]
    assert any(apart)
    assert not all(apart)
    expected = [[1, 6] for _ in range(6)]
    for (one, other), difference, told in zip(pairs, differences, apart, strict=True):
        if told:
            winner, loser = (one, other) if difference > 0 else (other, one)
            expected[loser][0] += 1
            expected[winner][1] -= 1
    assert [list(rank) for rank in rank_classes(scores, clusters)] == expected


def test_ranks_on_pools_of_another_seed_heed_the_sessions(tmp_path):
    track = own_track("task3_d100", 1)
    assert track is not None
    together, sessions = Counter(track.sessions.values()), track.sessions
    paired = sorted((sessions[name], name) for name in sessions if together[sessions[name]] == 2)
    alone = [name for name in sessions if together[sessions[name]] == 1]
    missed = {"system-000": alone[-2:], "system-001": [name for _, name in paired[:6]] + alone[:3]}
    synthesise(tmp_path, 2, tracks=["task3_d100"])
    matrix = []
    for slug, names in missed.items():
        about = {"conditions": {"pools": {"seed": 1}}, "data_sha256": track.sha256}
        forge(tmp_path / slug, changed("runs.0.settings.seed", 1))
        forge(tmp_path / slug, changed("tracks.task3_d100", lambda card, about=about: card | about))
        matrix.append([float(name not in names) for name in sessions])
        scores = []
        for name, score in zip(sessions, matrix[-1], strict=True):
            scores.append({"benchmark_id": name, "scores": {"recall_at_1": score}})
        write_rows(tmp_path / slug / "task3_d100" / "scores.jsonl", scores)
    (board,) = boards_in(tmp_path, "task3_d100", "recall_at_1")
    by_record = rank_classes(np.array(matrix), list(sessions))
    by_session = rank_classes(np.array(matrix), list(sessions.values()))
    assert [list(rank) for rank in by_record] == [[1, 1], [2, 2]]
    assert [standing.rank for standing in board.standings] == by_session == [(1, 2), (1, 2)]


def test_one_session_ranks_nobody():
    assert rank_classes(np.array([[0.0, 1.0], [1.0, 1.0]]), ["s", "s"]) is None
    assert rank_classes(np.full((2, 3), np.nan), ["a", "b", "c"]) is None
    with pytest.raises(ValueError, match="lengths differ: 3, 4"):
        rank_classes(np.ones((2, 3)), list("abcd"))


def test_the_reported_rows_are_those_of_the_paper():
    published = read_references()
    models = {row.name for row in published.on("task1") if row.table.id.endswith("paper-models")}
    assert len(models) == 7
    memories = [row.table.id for row in published.on("task4_ability5")]
    assert memories.count("alpsbench-paper-memory-utilization") == 9
    best = next(row for row in published.on("task3_d1000") if row.name == "DeepSeek-v3.2")
    assert best.scores["recall_at_1"]["value"].value == 0.9495


def test_what_is_no_site_is_never_replaced(submissions, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="has files, but no "):
        build(submissions, tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep"
    with pytest.raises(UsageError, match="no such folder"):
        build(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_broken_submission_is_named(submissions, tmp_path):
    folder = tmp_path / "submissions" / "broken"
    folder.mkdir(parents=True)
    (folder / "submission.json").write_text('{"format": 1}')
    with pytest.raises(DataError, match=r"broken.submission\.json"):
        build(tmp_path / "submissions", tmp_path / "out")


def test_an_empty_leaderboard_is_a_site_too(tmp_path, capsys):
    (tmp_path / "submissions").mkdir()
    words = [f"submissions={tmp_path / 'submissions'}", f"out={tmp_path / 'site'}"]
    assert build_command(words) == 0
    assert "0 submissions on 0 boards" in capsys.readouterr().out
    assert "no submission yet" in (tmp_path / "site" / "index.html").read_text("utf-8")
    with pytest.raises(UsageError, match="did you mean 'out'"):
        build_command(["uot=x"])


def status_of(server, path):
    """Ask a server for a path; return the status of its answer."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=300)
    with closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def test_a_site_is_served_on_loopback_file_by_file(site):
    with running(serve(site)) as server:
        assert server.server_address[0] == "127.0.0.1"
        expected = {"/": 200, "/assets/site.css": 200, "/data/": 404, "/../submissions/": 404}
        assert {path: status_of(server, path) for path in expected} == expected
    with pytest.raises(UsageError, match="no site in this folder"):
        check_site(site / "data")


@pytest.mark.release
def test_strangers_who_break_off_fill_no_terminal_of_a_served_site(site, capfd):
    asked = b"GET / HTTP/1.1\r\nHost: x\r\nX: "
    reset = struct.pack("ii", 1, 0)
    with running(serve(site)) as server:
        for body in 20 * (asked, b"", asked[:5], b"\x16\x03\x01" * 9):
            with socket.create_connection(server.server_address[:2]) as stranger:
                stranger.sendall(body)
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        assert status_of(server, "/") == 200
    assert capfd.readouterr().err == ""


def test_the_changes_have_reviews_by_their_day_and_with_their_reasons(site):
    text = Page((site / "changes.html").read_text("utf-8")).text
    days = text.partition("Submissions and reviews by day")[2]
    reviewed = " ".join(days.partition("2026-11-02")[2].split())
    assert reviewed.startswith("Model 3 reviewed, scores judged again: Extraction re-scored")
    assert "Judged again." in reviewed.partition("re-scored")[2][:20]


def test_the_official_settings_are_a_config_of_a_run_and_stand_on_the_page_on_submitting(site):
    settings = parse_words([f"config={OFFICIAL}", "task=extraction", "model=rules"], RunSettings)
    named = official()
    assert (settings.data, settings.split, settings.judge) == (named.data, named.split, named.judge)
    assert "@" in settings.data, "the data are pinned to a commit"
    page = (site / "about.html").read_text("utf-8")
    assert "alps run config=leaderboard/official.toml task=all" in page
    for value in tomllib.loads(OFFICIAL.read_text("utf-8")).values():
        assert not isinstance(value, str) or value in page


@pytest.mark.parametrize(
    ("judge", "decides", "expected"),
    [
        ("openai/gpt-4.1-2025-04-14", True, "official"),
        ("lexical", False, "official"),
        ("openai/another", True, "llm"),
        ("lexical", True, "embedded"),
        ("recorded:verdicts.jsonl", True, "embedded"),
    ],
)
def test_systems_come_in_the_order_of_who_judged_them(judge, decides, expected):
    assert judged_by(judge, decides=decides) == expected


def test_every_submission_is_on_the_first_page_with_serious_judges_first(submissions, tmp_path):
    judges = {"system-001": "lexical", "system-002": "openai/other", "system-003": official().judge}
    for n, (slug, judge) in enumerate(judges.items()):
        named = {"judge": judge, "judge_fingerprint": f"{n}a1b2c3d4e5f"}
        one_track(submissions, tmp_path, slug, lambda track, named=named: track.update(named))
    text = Page(page_in(tmp_path / "submissions", tmp_path / "site", "index")).text
    places = [text.index(words) for words in ("Model 3", "Judged by another LLM", "Model 2")]
    places += [text.index("Judged by lexical"), text.rindex("Model 1")]
    assert places == sorted(places)


def test_the_baseline_of_a_column_is_of_the_judge_of_its_scores(submissions, tmp_path):
    one_track(submissions, tmp_path)
    judge = {"judge": official().judge, "judge_fingerprint": "1a1b2c3d4e5f", "floors": {}}
    one_track(submissions, tmp_path, "system-003", lambda track: track.update(judge))
    page = page_in(tmp_path / "submissions", tmp_path / "site", "index")
    row = Page(page.partition('<tbody class="floors">')[2].partition("</tbody>")[0]).text
    assert f"none recomputed under {official().judge}" in row


class Letters(BoardPart):
    """Counts the letters of the model of a system."""

    def columns(self, board):
        def letters_of(row):
            return Markup(len(row.system.card.system.model))

        return [(BoardColumn("letters", "letters of its model"), letters_of)]


BOARD = Letters()


@pytest.fixture
def known(monkeypatch):
    """Let there be other extensions than ours."""

    def are(*others):
        monkeypatch.setattr(parts, "extensions", lambda: others)
        parts.part_of.cache_clear()

    yield are
    parts.part_of.cache_clear()


def test_a_column_of_an_extension_stands_on_boards_of_its_runs(honest, tmp_path, known):
    shutil.copytree(honest, tmp_path / "sent" / "honest")
    known(*extensions(), Extension("letters", board=f"{__name__}:BOARD", on_card="model"))
    page = page_in(tmp_path / "sent", tmp_path / "site")
    assert "letters of its model" in page
    row = page[page.index('systems/honest.html"') :].partition("</tr>")[0]
    assert ">5</td>" in row


def test_what_no_extension_can_check_is_refused(shelf, folder, known):
    audit = {"judge": "people", "fingerprint": {}, "sessions": 1, "seed": 1, "scores": {}}
    forge(folder, changed("tracks.task1.audit", audit))
    known()
    found = shelf.verify(folder)
    assert said(found, "extension").where == "audit"
    assert found.serious
    assert json.dumps(found.as_json())
