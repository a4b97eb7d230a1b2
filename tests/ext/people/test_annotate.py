"""Labelling without a browser: what a form becomes on disk, what is hidden until then, and who is
refused.
"""

import asyncio
import html
import json
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from alps.errors import UsageError
from alps.ext.calibration.calibration_file import rubric_of
from alps.ext.people.annotate import LabelItem, form_of, gloss_in, open_work
from alps.ext.people.annotate.export import export
from alps.ext.people.annotate.labels import people_in, read_journal
from alps.ext.people.annotate.page import application
from alps.ext.people.annotate.seat import Seat
from tests.annotate_work import NEEDED, TOKEN, label_all, made, plain_work, rated_run, related_run
from tests.conftest import ROOT
from tests.endtoend import rows, write_rows
from tests.pages import Page
from tests.tracks import alps_here

testclient = pytest.importorskip("starlette.testclient", reason=NEEDED)
ORIGIN = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {"rate": rated_run(folder / "rated"), "match": related_run(folder / "related")}


@pytest.fixture(scope="module")
def works(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("works")
    return {job: made(folder / job, job, str(run), n=4) for job, run in runs.items()}


@pytest.fixture
def work(works, tmp_path):
    """A folder of answers to rate that nobody has labelled."""
    return Path(shutil.copytree(works["rate"], tmp_path / "work"))


@pytest.mark.parametrize("count", [1, 9, 10, 120])
def test_no_key_of_an_answer_begins_as_another(count):
    dialogue = [{"role": "user", "text": f"turn {n}"} for n in range(count)]
    memory = LabelItem("m", "memories", None, {"dialogue": dialogue, "memory": {"value": "x"}})
    for question in form_of(memory, {}).questions:
        codes = sorted(choice.code for choice in question.choices)
        assert not any(later.startswith(one) for one, later in pairwise(codes)), question.name


class Desk:
    """A person's page without a browser."""

    def __init__(self, folder: Path, person: str = "anna", **settings: bool) -> None:
        self.seat = Seat(folder, person, **settings)
        page = application(self.seat, TOKEN)
        self.client = testclient.TestClient(page, base_url=f"{ORIGIN}/{TOKEN}")
        self.headers = {"origin": ORIGIN, "x-requested-with": "fetch"}
        self.text = self.client.get("/").text

    def __enter__(self) -> "Desk":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.seat.close()

    @property
    def words(self) -> str:
        """The words of the page, wherever its lines end."""
        return " ".join(Page(self.text).text.split())

    @property
    def hidden(self) -> dict[str, str]:
        """The hidden fields of the form that is shown."""
        fields = Page(self.text).all("input")
        return {f["name"]: f["value"] for f in fields if f.get("type") == "hidden"}

    @property
    def checked(self) -> list[str]:
        """The answers that are chosen in the form that is shown."""
        return [field["value"] for field in Page(self.text).all("input") if "checked" in field]

    def send(self, **form: str):
        """Send a form."""
        return self.client.post("/label", data=form, headers=self.headers)

    def say(self, **given: str) -> str:
        """Send the form that is shown, filled in."""
        self.text = self.send(**{**self.hidden, **given}).text
        return self.text


def lines(folder, person="anna"):
    return [*read_journal(folder / f"journal-{person}.jsonl")]


@pytest.fixture
def anna(work):
    """The page of anna, who has labelled nothing yet."""
    with Desk(work) as page:
        yield page


def test_the_judge_is_hidden_until_a_label_is_on_disk_and_both_labels_are_kept(work, anna):
    assert "The judge" not in anna.text
    first = anna.hidden["item"]
    anna.say(label="1")
    assert [one.answer for one in lines(work)] == [{"label": 1}]
    assert "The judge's label (openai/scripted-judge)" in anna.words
    assert anna.hidden["item"] == first
    anna.say(label="0")
    kept = [(one.item_id, one.stage, one.answer["label"], one.shown) for one in lines(work)]
    assert kept == [(first, "first", 1, False), (first, "revised", 0, True)]
    assert anna.hidden["item"] != first


def test_a_label_that_is_sent_twice_is_written_once(work):
    with Desk(work) as desk:
        once = desk.hidden
        desk.say(label="1")
        assert desk.send(**once, label="0").status_code == 200
        assert len(lines(work)) == 1
    with Desk(work) as desk:  # after the server was killed
        assert "another tab" not in desk.send(**once, label="1").text
    assert len(lines(work)) == 1


def test_whoever_comes_back_goes_on_where_they_were(work):
    with Desk(work) as desk:
        desk.say(label="1")
        waiting = (desk.hidden["item"], desk.hidden["rows"])
    with Desk(work) as desk:
        assert (desk.hidden["item"], desk.hidden["rows"]) == waiting
        assert "1" in desk.checked


def test_a_torn_line_of_a_killed_page_is_labelled_again(work):
    with Desk(work) as desk:
        desk.say(label="1")
    path = work / "journal-anna.jsonl"
    path.write_bytes(path.read_bytes() + b'{"item_id":"to')
    with Desk(work) as desk:
        assert len(lines(work)) == 1
        desk.say(label="1")
        assert len(lines(work)) == 2


def test_a_label_from_another_tab_is_kept_beside_and_the_page_says_so(work, anna):
    first_tab, item = anna.hidden, anna.hidden["item"]
    anna.text = anna.client.get("/").text
    anna.say(label="1")
    anna.text = anna.send(**first_tab, label="0").text
    assert "You also labelled this item in another tab" in anna.words
    assert anna.hidden["item"] == item
    assert anna.checked == ["0"]
    kept = [(one.item_id, one.answer["label"], one.shown) for one in lines(work)]
    assert kept == [(item, 1, False), (item, 0, True)]


@pytest.mark.few(4)
@pytest.mark.parametrize("number", ["²", "٣" * 30, "9" * 400, "9" * 5_000, "-1", "1e999", "0"])
@pytest.mark.parametrize("field", ["place", "rows"])
def test_a_number_of_any_form_breaks_no_page(anna, field, number):
    form = {**anna.hidden, "label": "1", "item": "none", field: number}
    assert anna.send(**form).status_code == 200
    there, nowhere = (anna.client.get(f"/item/{place}") for place in (number, "none"))
    assert (there.status_code, there.text) == (200, nowhere.text)


def test_a_form_without_end_is_given_up_and_not_kept(work):
    pieces, told = [], []

    async def receive():
        pieces.append(1)
        more = len(pieces) < 1_000
        return {"type": "http.request", "body": b"x" * 100_000, "more_body": more}

    async def send(message):
        told.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1")]
    scope = {"type": "http", "method": "POST", "path": f"/{TOKEN}/label", "headers": headers}
    seat = Seat(work, "anna")
    served = application(seat, TOKEN)
    asyncio.run(served({**scope, "root_path": "", "query_string": b""}, receive, send))
    seat.close()
    assert (told[0]["status"], len(pieces)) == (413, 3)
    assert lines(work) == []


def test_without_the_token_nothing_is_shown_and_nothing_is_taken(work, anna):
    stranger = testclient.TestClient(anna.client.app, base_url=ORIGIN)
    for path in ("/", "/item/1", f"/?token={TOKEN}", "/guessed/", "/assets/annotate.js"):
        assert stranger.get(path).status_code == 403
    form = {**anna.hidden, "label": "1"}
    for path in ("/label", f"/label?token={TOKEN}", "/guessed/label"):
        assert stranger.post(path, data=form, headers=anna.headers).status_code == 403
    assert "full address that alps printed" in stranger.get("/").text
    assert lines(work) == []
    let_in = stranger.get(f"/{TOKEN}")
    assert let_in.status_code == 200
    assert str(let_in.url).endswith(f"/{TOKEN}/")
    # A cookie would go to the servers on all ports of this machine.
    assert not stranger.cookies
    assert stranger.get("/").status_code == 403
    stranger.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 403, id="no origin"),
        pytest.param({"origin": "http://evil.example"}, 403, id="another page"),
        pytest.param({"origin": "null"}, 403, id="a page without an address"),
        pytest.param({"origin": "http://127.0.0.1:9999"}, 403, id="another port"),
        pytest.param({"origin": ORIGIN, "sec-fetch-site": "cross-site"}, 403, id="cross-site"),
        pytest.param({"origin": "http://evil.example", "host": "evil.example"}, 400, id="rebound"),
    ],
)
def test_what_another_page_sends_is_refused_and_nothing_is_written(work, anna, headers, status):
    reply = anna.client.post("/label", data={**anna.hidden, "label": "1"}, headers=headers)
    assert reply.status_code == status
    assert lines(work) == []


def test_the_page_may_load_nothing_but_itself(anna):
    policy = anna.client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = Page(anna.text)
    linked = [e.get("src") or e.get("href") for e in (*page.all("script"), *page.all("link"))]
    assets = f"/{TOKEN}/assets/annotate"
    assert linked == [f"{assets}.js", "data:,", f"{assets}.css"]
    for name in (linked[0], linked[2]):
        assert anna.client.get(f"{ORIGIN}{name}").status_code == 200
    assert anna.client.get("/assets/..%2fseat.py").status_code == 404


def test_hostile_texts_are_text(work):
    hostile = rows(work / "items.jsonl")
    for row in hostile:
        row["payload"]["response"] = "<script>alert(1)</script>"
    write_rows(work / "items.jsonl", hostile)
    with Desk(work) as desk:
        assert "<script>alert" not in desk.text
        assert "<script>alert(1)</script>" in desk.words


def test_two_people_label_in_one_folder_and_one_person_has_one_page(work):
    with Desk(work) as anna, Desk(work, "ben") as ben:
        anna.say(label="1")
        ben.say(label="0")
        with pytest.raises(UsageError, match="as=anna: this annotator's page is already open"):
            Seat(work, "anna")
    assert {name: len(said) for name, said in people_in(work).items()} == {"anna": 1, "ben": 1}


def test_relations_are_labelled_by_their_keys(works, tmp_path):
    folder = Path(shutil.copytree(works["match"], tmp_path / "work"))
    with Desk(folder) as desk:
        radios = [i for i in Page(desk.text).all("input") if i.get("type") == "radio"]
        keys = [(i["value"], i["data-code"]) for i in radios]
        assert keys[:2] == [("same", "1"), ("narrower", "2")]
        desk.say(label="related")
        assert lines(folder)[0].answer == {"label": "related"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere",), "nothing to annotate; create it with job= (rate, match, gold, queries)"),
        (("w", "job=rate", "from=samples"), "no such run folder"),
        (("w", "job=gold", "from=nowhere"), "nowhere"),
        (("w", "job=wash"), "job=wash"),
        (("w", "as=a/b"), "use only letters, digits"),
        (("w", "job=queries", "from=samples", "target=.05"), "queries have no metric"),
        (("w", "job=gold", "from=samples", "people=anna"), "name at least 2 different people"),
        (("w", "job=gold", "from=samples", "annotators=3"), "list all annotators with people="),
    ],
)
def test_what_cannot_be_annotated_is_told_in_one_line(tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    assert told in alps_here("annotate", *words).one_line


@pytest.mark.parametrize(("job", "other"), [("rate", "match"), ("match", "rate")])
def test_a_job_that_a_run_has_not_leaves_no_folder_and_names_the_one_it_has(
    runs, tmp_path, job, other
):
    folder = tmp_path / "work"
    done = alps_here("annotate", folder, f"job={job}", f"from={runs[other]}")
    assert f"use job={other}" in done.one_line
    assert not folder.exists()


@pytest.mark.release
def test_the_folder_of_a_job_tells_of_that_job_alone(tmp_path):
    run = tmp_path / "run"
    assert alps_here("run", "task=all", "model=rules", "limit=2", f"out={run}").code == 0
    folder = made(tmp_path / "work", "match", str(run), n=2)
    sample = json.loads((folder / "sample.json").read_text(encoding="utf-8"))
    asked = {row["rubric"] for row in rows(folder / "items.jsonl")}
    assert set(sample["rubrics"]) == asked


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("job=match", "the folder was created with job=rate; leave job= out"),
        ("from=samples", "the folder was created with from="),
        ("n=7", "the folder was created with n=4; leave n= out"),
        ("target=.05", "the folder was created without target=; leave target= out"),
        ("people=anna,ben", "the folder was created without people=; leave people= out"),
        ("blind=no", "the folder was created with blind=yes; leave blind= out"),
    ],
)
def test_a_folder_is_not_gone_on_with_under_other_settings(work, word, told):
    assert told in alps_here("annotate", work, word).one_line


def test_a_person_who_is_not_named_leaves_no_folder(runs, tmp_path):
    folder = tmp_path / "work"
    words = ("annotate", folder, "job=match", f"from={runs['match']}", "people=anna,ben", "n=2")
    assert "as=cleo: not one of the annotators (anna, ben)" in alps_here(*words, "as=cleo").one_line
    assert not folder.exists()


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("people=anna,cleo", "created with people=anna,ben; leave people= out"),
        ("blind=yes", "created with blind=no; leave blind= out"),
        ("audit=.25", "created without audit=; leave audit= out"),
    ],
)
def test_settings_of_a_folder_are_told_as_they_are_typed(runs, tmp_path, word, told):
    source, given = str(runs["match"]), {"n": 2, "blind": False, "people": "anna,ben", "as": "anna"}
    folder = made(tmp_path / "work", "match", source, **given)
    assert told in alps_here("annotate", folder, word, "as=anna").one_line


def test_where_nothing_is_hidden_the_labels_say_so(runs, tmp_path):
    folder = made(tmp_path / "work", "match", str(runs["match"]), n=2, blind=False)
    with Desk(folder) as desk:
        assert "The judge" in desk.text
        first = desk.hidden["item"]
        desk.say(label="same")
        assert desk.hidden["item"] != first
    assert [one.shown for one in lines(folder)] == [True]


def test_without_its_packages_the_page_says_how_to_install_them(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [])  # nothing that is not imported yet can be found
    monkeypatch.delitem(sys.modules, "uvicorn", raising=False)
    done = alps_here("annotate", tmp_path / "work", "job=gold", "from=samples")
    assert "pip install 'alps-eval[annotate]'" in done.one_line
    assert not (tmp_path / "work").exists()


def test_whoever_is_told_to_stop_may_go_on(tmp_path):
    folder = plain_work(tmp_path / "work", 100, target=0.3)
    label_all(folder, "anna", lambda step: {"label": "1"}, most=160)
    with Desk(folder) as desk:
        assert "The interval has reached its target width" in desk.text
        assert "(target: ± .300)" in desk.words
        assert "item" not in desk.hidden
        desk.text = desk.client.get("/?on=yes").text
        assert desk.hidden["item"].startswith("task4_ability1/")
        desk.say(label="1")
        assert "item" in desk.hidden


def test_a_label_can_be_corrected_before_anything_is_shown(tmp_path):
    folder = plain_work(tmp_path / "work", 20)
    (folder / "shown.jsonl").unlink()
    with Desk(folder) as desk:
        desk.say(label="1")
        desk.text = desk.client.get("/item/1").text
        desk.say(label="0")
    assert [one.stage for one in lines(folder)] == ["first", "revised"]
    export(folder, tmp_path / "out")
    assert rows(tmp_path / "out" / "labels.jsonl")[0]["label"] == 0


def test_memories_of_a_run_are_verified_on_the_data_that_it_saw(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "data" / "samples", "mine")
    words = ("task=extraction", "model=rules", "data=mine", "limit=2", "baseline_records=0")
    assert alps_here("run", *words, "out=runs/mine").code == 0
    # Data here come before a run of their name.
    folder = made(tmp_path / "data", "gold", "mine", n=2)
    assert {step.system for step in open_work(folder).items.values()} == {None}
    given = Path("mine/dev/task1/model_input.jsonl")
    given.write_text(given.read_text("utf-8").replace("the", "a"), "utf-8")
    refused = alps_here("annotate", "work", "job=gold", "from=runs/mine")
    assert (refused.code, "hash" in refused.err) == (2, True)
    assert not Path("work").exists()


def test_a_label_has_a_gloss_and_the_rubric_is_unfolded_until_the_first_label(anna):
    assert re.search(r"not met <small>[^<]{20,115}</small>", anna.text)
    seen = set()
    for _ in range(4):
        rubric = re.search(r"<small>(\w+)</small></h1>", anna.text)[1]
        assert ('<details class="rubric" open>' in anna.text) == (rubric not in seen)
        anna.say(label="1")
        assert "second label, after seeing the judge's verdict" in html.unescape(anna.text)
        assert '<details class="rubric">' in anna.text
        anna.say(label="1")
        seen.add(rubric)


LABELS = {
    **dict.fromkeys(("pa", "pf_general", "pf_interaction", "vra", "cf"), ("met", "not_met")),
    **dict.fromkeys(("ei_resonation", "ei_expression", "ei_reception"), tuple("12345")),
    "matching": ("same", "narrower", "bundle", "broader", "conflicting", "related", "unrelated"),
}


@pytest.mark.parametrize("rubric", sorted(LABELS))
def test_every_label_of_our_rubrics_has_a_gloss_of_one_line(rubric):
    for label in LABELS[rubric]:
        gloss = gloss_in(rubric_of(rubric).text, label, rubric)
        assert 15 < len(gloss) <= 115, (label, gloss)
