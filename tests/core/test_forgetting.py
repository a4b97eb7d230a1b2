"""Forgetting: who gets what score, and what a memory system is told, deleted and asked."""

import asyncio
import json
import random
import re
from collections import Counter

import pytest

from alps.ext.memory.reader import Direct
from alps.run.source import open_data
from alps.settings import RunSettings, parse_settings
from alps.systems.resolve import floor_systems, resolve_system
from alps.tasks.forgetting.samples import KINDS, ROLES, SURNAMES, count_forms, forms_of, gives
from alps.text import fold
from tests.endtoend import one_line, rows, summary
from tests.ext.memory.stores import store_of, together
from tests.form_classifiers import Reads


def opened(seed=0):
    settings = {"task": "forgetting", "model": "rules", "memory": "bm25", "seed": seed}
    return open_data(parse_settings(settings, RunSettings)).tracks[0]


@pytest.fixture(scope="module")
def track():
    return opened()


class Keeps:
    """Returns everything a user told; others break or mend one thing of it."""

    def __init__(self):
        self.told, self.calls = {}, []

    def open(self, opening):
        self.calls.append(("open",))

    def ingest(self, user, session):
        self.calls.append(("ingest", user, session.id))
        self.told.setdefault(user, {})[session.id] = session.turns

    def settle(self, user, timeout):
        return "ready"

    def search(self, user, query, k, at):
        self.calls.append(("search", user, query))
        return [{"id": str(n), "text": text} for n, text in enumerate(self.texts(user, query))]

    def texts(self, user, query):
        return [turn.text for turns in self.told.get(user, {}).values() for turn in turns]

    def reset(self, user):
        self.told.pop(user, None)


class OneLongText(Keeps):
    def texts(self, user, query):
        return [" ".join(super().texts(user, query))]


class SharesUsers(Keeps):
    def texts(self, user, query):
        return [text for other in self.told for text in super(SharesUsers, self).texts(other, "")]


class HalfOfIt(Keeps):
    """Returns each text or not, by the toss of a coin."""

    def __init__(self, seed):
        super().__init__()
        self.random = random.Random(seed)

    def texts(self, user, query):
        return [text for text in super().texts(user, query) if self.random.random() < 0.5]


class Correct(Keeps):
    """Understands the sentences in which facts are told, changed, deleted, and kept for a context.

    What it deleted stays deleted until it is told again in another session.
    """

    persistent = True
    reads = Reads(0)

    def __init__(self):
        super().__init__()
        self.facts, self.known = {}, set()

    def ingest(self, user, session):
        super().ingest(user, session)
        if (user, session.id) in self.known:
            return
        self.known.add((user, session.id))
        facts = self.facts.setdefault(user, {})
        for turn in session.turns:
            self.take_in(facts, turn.text)

    def take_in(self, facts, text):
        reads = self.reads
        if match := reads.first(reads.changed, text):
            facts[match["role"]] = match["name"], None
        elif match := reads.first(reads.told, text):
            scope = reads.first(reads.scoped, text[match.end() :])
            facts[match["role"]] = match["name"], scope and scope["use"].strip().lower()
        elif match := reads.first(reads.forget, text):
            facts.pop(match["role"], None)

    def texts(self, user, query):
        for role, (name, use) in self.facts.get(user, {}).items():
            if role in query and (use is None or f"about {use}" in query):
                yield f"The user's {role} is called {name}."


class Learnt(Correct):
    """Reads the forms of seed 0, and returns what a user said of a role where it read nothing."""

    def forget(self, user, what):
        for turns in self.told[user].values():
            turns[:] = [turn for turn in turns if what not in turn.text]
        facts = self.facts[user]
        self.facts[user] = {role: fact for role, fact in facts.items() if fact[0] != what}

    def ingest(self, user, session):
        super().ingest(user, session)
        self.told[user][session.id] = list(session.turns)

    def texts(self, user, query):
        facts = self.facts.get(user, {})
        yield from super().texts(user, query)
        for text in Keeps.texts(self, user, query):
            if not any(role in text and role in query for role in facts):
                yield text


class FormerlyFirst(Learnt):
    """Says of each role that the first name is past and the last one holds, whatever was said."""

    reads = Reads()

    def texts(self, user, query):
        said = Keeps.texts(self, user, query)
        for role in ROLES:
            names = [name for text in said if role in text for name in SURNAMES if name in text]
            if role in query and names:
                last, first = names[-1], names[0]
                yield f"{last}, formerly {first}" if first != last else first


class OneStatement(Learnt):
    """Returns all that was said of the roles of a query as one statement, without punctuation."""

    reads = Reads()

    def texts(self, user, query):
        roles = [role for role in ROLES if role in query]
        said = [text for text in Keeps.texts(self, user, query) if any(r in text for r in roles)]
        return [" ".join(re.sub(r"[^\w ]", "", text) for text in said)]


class Parrot(Learnt):
    """Returns every text, and deletes those that it is asked to."""

    reads = Reads()


class AsJson(OneStatement):
    def texts(self, user, query):
        return [json.dumps({"memories": [*super().texts(user, query)]})]


class Deletes(Correct):
    def forget(self, user, what):
        self.calls.append(("forget", user, what))
        facts = self.facts[user]
        self.facts[user] = {role: fact for role, fact in facts.items() if fact[0] != what}


class BringsBack(Deletes):
    """Has again what it deleted once it is opened again."""

    def __init__(self):
        super().__init__()
        self.file = {}

    def forget(self, user, what):
        self.file[user] = dict(self.facts[user])
        super().forget(user, what)

    def open(self, opening):
        super().open(opening)
        self.facts.update(self.file)


def asked(system, track, path, limit=None, seconds=None):
    """Return the score of each sample, asked all at once; it is killed after so many seconds."""
    path.mkdir(exist_ok=True)
    samples = list(track.samples())[:limit]
    memory = store_of(system, path, [(track.task, one) for one in samples])
    direct = Direct(resolve_system("rules", track.task), memory)
    answers = [asyncio.wait_for(direct.answer(track.task, one), seconds) for one in samples]
    scored = []
    for sample, prediction in zip(samples, together(memory, answers), strict=True):
        scored.append((sample.kind, track.task.score(sample, prediction, None, None)))
    return scored


def mean(scored, name="joint", kind=None):
    chosen = [one.scores[name] for of_kind, one in scored if kind in (None, of_kind)]
    return sum(chosen) / len(chosen)


@pytest.mark.few(2)
@pytest.mark.parametrize("system", [SharesUsers, OneLongText, Keeps])
def test_what_forgets_nothing_gets_nothing(track, tmp_path, system):
    scored = asked(system(), track, tmp_path, limit=24)
    # The suite keeps users apart by their ids, so a system that has them apart gets that kind.
    for kind in KINDS if system is SharesUsers else KINDS.keys() - {"other_user"}:
        assert abs(mean(scored, kind=kind)) <= 0.05
        assert mean(scored, "both", kind) == 0


@pytest.mark.parametrize("floor", ["floor/nothing", "floor/refusal", "floor/everything"])
def test_trivial_baselines_get_nothing(track, floor):
    system = floor_systems(track.task)[floor]
    scores = []
    for sample in track.samples():
        prediction = asyncio.run(system.answer(track.task, sample))
        scores.append(track.task.score(sample, prediction, None, None).scores["joint"])
    assert scores == [0.0] * len(scores)


@pytest.mark.release
def test_what_returns_any_half_of_all_texts_gets_no_more_than_chance(track, tmp_path):
    scored = []
    for seed in range(3):
        scored += asked(HalfOfIt(seed), track, tmp_path / str(seed), limit=60)
    for kind in ("deleted", "context"):
        assert abs(mean(scored, kind=kind)) <= 0.15
        assert mean(scored, "both", kind) > 0.15
    # Two names have to be found, so a coin finds both less often than the one to go.
    assert mean(scored, kind="superseded") < 0


@pytest.mark.few(1)
@pytest.mark.parametrize("system", [Correct, Deletes])
def test_a_correct_store_gets_all_whether_it_can_delete_or_is_asked_to(track, tmp_path, system):
    scored = asked(system(), track, tmp_path)
    assert [one.scores["joint"] for _, one in scored] == [1.0] * len(scored)
    assert Counter(kind for kind, _ in scored) == dict.fromkeys(KINDS, track.n // 4)


@pytest.mark.release
def test_a_deletion_that_a_restart_undoes_is_a_leak(track, tmp_path):
    scored = asked(BringsBack(), track, tmp_path)
    assert mean(scored, "leaked", "deleted") == 1
    assert mean(scored, kind="deleted") == 0
    assert mean([pair for pair in scored if pair[0] != "deleted"]) == 1


def test_a_deletion_comes_before_later_sessions_a_repeated_one_and_the_search(track, tmp_path):
    system = Deletes()
    asked(system, track, tmp_path, limit=1)
    (user,) = {call[1] for call in system.calls if call[0] == "forget"}
    done = [call[0] + call[2] if call[0] == "ingest" else call[0] for call in system.calls]
    told = ["ingests1", "ingests2", "forget", "ingests4", "ingests2"]
    assert done == ["open", *told, "open", "search", "search"]
    assert {call[1] for call in system.calls if call[0] != "open"} == {user}


def test_a_system_that_keeps_nothing_in_its_folder_is_opened_once(track, tmp_path):
    system = Keeps()
    asked(system, track, tmp_path, limit=8)
    assert system.calls.count(("open",)) == 1


class Watches(Correct):
    """Fails where it is opened while a session is being taken in, or not yet settled."""

    def __init__(self):
        super().__init__()
        self.unsettled = set()

    def open(self, opening):
        super().open(opening)
        assert not self.unsettled

    async def ingest(self, user, session):
        self.unsettled.add(user)
        await asyncio.sleep(0)
        super().ingest(user, session)

    async def settle(self, user, timeout):
        await asyncio.sleep(0)
        self.unsettled.discard(user)
        return "ready"


def test_a_system_is_opened_again_while_nobody_else_is_told(track, tmp_path):
    assert mean(asked(Watches(), track, tmp_path)) == 1


def counted(system):
    """Count the calls about a user, whoever it is."""
    return Counter(call[:1] + call[2:] for call in system.calls if call[0] != "open")


class Hangs(Deletes):
    """Does not come back from the call after so many."""

    def __init__(self, calls):
        super().__init__()
        self.left = calls

    async def settle(self, user, timeout):
        self.left -= 1
        if self.left < 0:
            await asyncio.Event().wait()
        return "ready"


@pytest.mark.release
def test_a_killed_run_goes_on_and_ingests_no_settled_session_twice(track, tmp_path):
    whole = Deletes()
    expected = asked(whole, track, tmp_path / "whole", limit=4)
    for calls in (1, 3, 6, 9):
        system = Hangs(calls)
        place = tmp_path / str(calls)
        with pytest.raises(TimeoutError):
            asked(system, track, place, limit=4, seconds=0.5)
        system.left = 1000
        assert asked(system, track, place, limit=4) == expected
        done, once = counted(system), counted(whole)
        # Four samples are told at once: what was not settled is told again.
        assert sum((done - once).values()) <= 4
        assert not once - done


class Raises(Keeps):
    def search(self, user, query, k, at):
        raise RuntimeError("no index")


def test_a_system_that_fails_has_found_nothing(track, tmp_path):
    scored = asked(Raises(), track, tmp_path, limit=4)
    assert all(one.scores["joint"] == 0 and one.scores["retained"] == 0 for _, one in scored)


def test_a_system_is_told_nothing_but_what_users_say(track, tmp_path):
    system = Deletes()
    asked(system, track, tmp_path, limit=40)
    said = json.dumps(system.calls)
    for sample in track.samples():
        assert sample.benchmark_id not in said
        assert sample.session_id not in said
    assert "gone" not in said
    assert "superseded" not in said


def test_facts_stand_nowhere_in_the_session_they_are_planted_into(track):
    for sample in track.samples():
        told = [turn.text for turn in sample.told]
        for expected in sample.gold:
            for fact in (*expected.found, *expected.gone):
                assert sum(gives(text, fact) for text in told) == 1
    assert len({fold(name) for name in SURNAMES}) == len(SURNAMES)
    assert not any(fold(a) in fold(b) for a in SURNAMES for b in SURNAMES if a != b)


def test_the_fact_to_go_is_told_first_as_often_as_last(track):
    first = []
    for sample in track.samples():
        (gone,) = [fact for expected in sample.gold for fact in expected.gone]
        (kept,) = [fact for expected in sample.gold[-1:] for fact in expected.found]
        places = {}
        for place, turn in enumerate(sample.told):
            places |= {fact: place for fact in (gone, kept) if gives(turn.text, fact)}
        first.append(places[gone] < places[kept])
    assert 0.35 < sum(first) / len(first) < 0.65


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("The landlord is Venables.", True),
        ("The landlord is VENABLES's son.", True),
        ("房东叫Venables先生", True),
        ("The landlord is Ottaway, formerly Venables.", False),
        ("The landlord is Ottaway. It was Venables once.", True),
        ("The landlord is Ottaway.", False),
        ("Venables was replaced by Ottaway as the landlord", False),
        ("landlord: Alina Ottaway (previously: Greta Venables)", False),
        ("The landlord changed from Greta Venables to Alina Ottaway.", False),
        ("The landlord is Ottaway, no longer Venables.", False),
        ('{"landlord": "Alina Ottaway", "formerly": "Greta Venables"}', False),
        ('{"landlord": "Alina Ottaway", "previous": "Greta Venables"}', False),
        ("Used to have Venables as landlord, now has Ottaway", False),
        ("The landlord is Venables, formerly Ottaway.", True),
        ("Landlords: Venables, Ottaway", True),
        ("formerly Venables, formerly Ottaway", True),
        ("Ottaway, formerly Venables, and Venables", True),
        ('["Venables", "Ottaway"]', True),
        ("- formerly Venables\n- Ottaway", True),
        ("formerly Venables" + " and so on" * 5 + " Ottaway", True),
    ],
)
def test_a_superseded_fact_is_given_away_unless_its_statement_calls_it_past(text, given):
    assert gives(text, "Venables", ["Ottaway"]) is given
    assert gives(text, "Venables") is ("Venables" in text or "VENABLES" in text)


def test_no_two_sentences_of_a_user_make_one_that_tells_of_a_change():
    for seed in range(8):
        forms = forms_of(seed)
        for told in forms.told:
            for changed in forms.changed:
                old = told.format(role="vet", name="Greta Venables")
                new = changed.format(role="vet", name="Alina Ottaway")
                for one, other in ((old, new), (new, old)):
                    text = re.sub(r"[^\w ]", "", f"{one} {other}")
                    assert gives(text, "Venables", ["Ottaway"]), text


@pytest.mark.release
def test_what_was_learnt_of_one_seed_is_of_no_use_on_another(track, tmp_path):
    assert mean(asked(Learnt(), track, tmp_path / "same", limit=40)) == 1
    for seed in (1, 6):
        assert mean(asked(Learnt(), opened(seed), tmp_path / str(seed), limit=60)) <= 0.6


@pytest.mark.parametrize("system", [OneStatement, AsJson, FormerlyFirst])
@pytest.mark.release
def test_no_form_of_an_answer_earns_more_than_the_parrot(system, track, tmp_path):
    form = mean(asked(system(), track, tmp_path / "form", limit=60))
    parrot = mean(asked(Parrot(), track, tmp_path / "parrot", limit=60))
    assert form <= parrot + 0.05


def test_the_data_say_how_many_forms_there_are(alps, tmp_path):
    words = "run", "task=forgetting", "model=rules", "memory=bm25", "limit=4"
    for seed in (0, 1):
        done = alps(*words, f"seed={seed}", f"out={seed}")
        assert done.returncode == 0, done.stderr
    said = [rows(tmp_path / str(seed) / "predictions.jsonl") for seed in (0, 1)]
    assert said[0] != said[1]
    manifest = json.loads((tmp_path / "1" / "manifest.json").read_text())
    described = manifest["data"]["tracks"]["forgetting"]
    assert (described["forms"], described["forms_drawn"]) == (count_forms(), 28)
    assert "seed 1" in done.stdout


def test_a_run_scores_a_memory_system_and_shows_its_records(alps, tmp_path):
    done = alps("run", "task=forgetting", "model=rules", "memory=bm25", "limit=8", "out=out")
    assert done.returncode == 0, done.stderr
    track = summary(tmp_path / "out")["tracks"]["forgetting"]
    # It deletes turns and keeps users apart, and knows neither changes nor contexts.
    assert track["scores"]["joint"]["value"] == 0.5
    assert {floor["scores"]["joint"]["value"] for floor in track["floors"].values()} == {0}
    assert len(rows(tmp_path / "out" / "predictions.jsonl")) == 8
    shown = alps("show", "out", "alps_ext_001:deleted")
    assert "What is the name of my" in shown.stdout


@pytest.mark.parametrize("memory", ["full", "none", "last:3", "oracle"])
def test_without_a_memory_system_it_is_one_line(alps, memory):
    said = one_line(alps("run", "task=forgetting", "model=rules", f"memory={memory}"))
    assert "task=forgetting: needs a memory system" in said


@pytest.mark.release
def test_all_tasks_have_it_where_a_memory_system_is_named(alps, tmp_path):
    done = alps("run", "task=all", "model=rules", "memory=bm25", "limit=1", "out=with")
    assert done.returncode == 0, done.stderr
    assert "forgetting" in summary(tmp_path / "with")["tracks"]
    done = alps("run", "task=all", "model=rules", "limit=1", "out=without")
    assert "Left out: forgetting" in done.stdout
