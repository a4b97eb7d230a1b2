"""Forms of the forgetting task: what was learnt from one seed tells nothing on another."""

import re
from itertools import combinations, permutations

import pytest

from alps.tasks.forgetting.samples import CHANGES, SCOPES, forms_of
from tests.form_classifiers import classifier_of_changes, classifier_of_scopes

SEEDS = range(25)


def right(weight):
    """Return how often a weight decides right: half of the time where it is 0."""
    return 1.0 if weight > 0 else 0.5 if weight == 0 else 0.0


def mean(values):
    return sum(values) / len(values)


def of_changes(classify, forms):
    """Return the joint score of `superseded`: right less the wrong way round."""
    found = mean([right(classify(form)) for form in forms.changed])
    spared = mean([right(-classify(form)) for form in forms.unchanged])
    return found + spared - 1


def of_scopes(classify, forms):
    """Return the joint score of `context`."""
    shares = []
    for form in forms.scoped:
        first = form.index("{use}") < form.index("{leave}")
        slots = ("{1}", "{2}") if first else ("{2}", "{1}")
        weight = classify(form.replace("{use}", slots[0]).replace("{leave}", slots[1]))
        shares.append(right(weight if first else -weight))
    return 2 * mean(shares) - 1


def joint(learnt, tried):
    """Return what a store scores that deletes, keeps users apart, and classifies the rest."""
    told, forms = forms_of(learnt), forms_of(tried)
    superseded = of_changes(classifier_of_changes(told), forms)
    return (2 + superseded + of_scopes(classifier_of_scopes(told), forms)) / 4


def test_a_classifier_gets_all_on_its_own_seed_and_at_most_six_tenths_on_any_other():
    assert {joint(seed, seed) for seed in SEEDS} == {1.0}
    scores = {pair: joint(*pair) for pair in permutations(SEEDS, 2)}
    assert round(max(scores.values()), 9) <= 0.6, max(scores, key=scores.get)
    assert mean(list(scores.values())) <= 0.55
    near = [score for pair, score in scores.items() if max(pair) < 10]
    assert set(near) == {0.5}


RULES = {
    "the role before the name": lambda form: form.find("{role}") < form.find("{name}"),
    "ends with the name": lambda form: form.endswith("{name}."),
    "begins with the name": lambda form: form.startswith("{name}"),
    "my role": lambda form: "my {role}" in form.lower(),
    "six words or more": lambda form: form.count(" ") >= 6,
    "two sentences or halves": lambda form: bool(re.search(r"[,;:?] ", form)),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_no_rule_of_form_tells_changes_from_their_opposites(rule):
    for seed in SEEDS:
        forms = forms_of(seed)
        assert mean([*map(rule, forms.changed)]) == mean([*map(rule, forms.unchanged)])


def test_the_order_of_contexts_tells_nothing():
    for seed in SEEDS:
        orders = [form.index("{use}") < form.index("{leave}") for form in forms_of(seed).scoped]
        assert sum(orders) == len(orders) / 2


def words_of(text):
    return set(re.findall(r"[a-z']+", text.lower()))


@pytest.mark.parametrize("frames", [CHANGES, SCOPES])
def test_no_word_of_a_cue_stands_in_another_frame_or_on_the_other_side(frames):
    whole = [words_of(" ".join(frame)) for frame in frames]
    for place, (text, one, other) in enumerate(frames):
        cues = words_of(one) | words_of(other)
        assert not words_of(one) & words_of(other)
        assert not words_of(text) & cues
        for elsewhere, words in enumerate(whole):
            assert elsewhere == place or not cues & words, cues & words


def frames_of(seed):
    """Return the numbers of the frames of a seed, of changes."""
    numbers = set()
    for form in forms_of(seed).changed:
        for number, (text, cues, _) in enumerate(CHANGES):
            if form in {text.replace("*", cue) for cue in cues.split("|")}:
                numbers.add(number)
    return numbers


def test_seeds_share_few_frames():
    drawn = {seed: frames_of(seed) for seed in range(125)}
    assert {len(numbers) for numbers in drawn.values()} == {5}
    for one, other in combinations(drawn, 2):
        shared = len(drawn[one] & drawn[other])
        assert shared <= (0 if one // 5 == other // 5 else 1 if one // 25 == other // 25 else 2)
