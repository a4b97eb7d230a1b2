"""Tokens of a text, as a server names them, and which of them hold its end."""

import itertools
import json
from random import Random

import pytest

from alps.tasks.personamem.likelihood import Echo, Echoed, compared_to_prediction, likelihood

CHARACTERS = ("a", "b", " ", "\n", "é", "’", "你", "好", "😊")


def body_of(names, offsets=None, values=None):
    """Return a reply in which each token's log-probability is its place, below zero."""
    values = values or [None, *(-float(place) for place in range(1, len(names)))]
    logprobs = {"tokens": names, "token_logprobs": values, "text_offset": offsets}
    return json.dumps({"choices": [{"text": "", "logprobs": logprobs}]}).encode()


def read(prompt, begins, names, offsets=None, values=None, generated=1):
    echo = Echo(prompt, begins)
    assert b"tokens" not in echo.take(body_of(names, offsets, values))
    return json.loads(echo.read(generated))


def parted(draw, text):
    """Part a text anywhere, in the middle of characters, too."""
    data = text.encode()
    places = draw.sample(range(1, len(data)), len(data) // 5)
    cuts = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(cuts)]


def test_however_a_text_is_parted_its_end_begins_with_the_token_that_holds_its_first_character():
    draw, refused = Random(7), 0
    for _ in range(2_000):
        prefix = "".join(draw.choices(CHARACTERS, k=draw.randint(5, 40))) + "Assistant:"
        option = " " + "".join(draw.choices(CHARACTERS, k=draw.randint(3, 30)))
        tokens = parted(draw, prefix + option)
        ends = [sum(map(len, tokens[: place + 1])) for place in range(len(tokens))]
        first = next(n for n, end in enumerate(ends) if end > len(prefix.encode()))
        wanted = [-float(place) for place in range(max(first, 1), len(tokens))]
        names = [token.decode(errors="replace") for token in tokens]
        try:
            assert read(prefix + option, len(prefix), [*names, " and"]) == wanted
        except ValueError:
            refused += 1
    assert refused < 10


@pytest.mark.parametrize(
    ("names", "offsets", "wanted"),
    [
        (["Ab", "c d", "e", "!"], None, [-1.0, -2.0]),  # a token across the beginning belongs to it
        (["Abc", " ", "de", "!"], None, [-1.0, -2.0]),
        (["Abc", " ", "de", "!"], [0, 3, 4, 6], [-1.0, -2.0]),
        (["<s>", "Abc", " de", "!"], [0, 3, 6, 9], [-2.0]),  # offsets that count what is not there
        (["#1", "#2", "#3", "!"], [0, 3, 4, 6], [-1.0, -2.0]),  # tokens that are not text
        (["#1", "#2", "#3", "!"], [0, 2, 5, 6], [-1.0, -2.0]),
        (["Abc de", "!"], None, None),  # all is in the first token
        (["#1", "#2", "#3", "!"], [0, 3, 4, 9], None),  # offsets of another text
        (["#1", "#2", "#3", "!"], [0, 4, 3, 6], None),
        (["#1", "#2", "#3", "!"], None, None),
        (["Abc", " ", "DE", "!"], None, None),
        ([], None, None),
    ],
)
def test_a_token_belongs_to_the_option_where_it_holds_a_character_of_it(names, offsets, wanted):
    if wanted is None:
        with pytest.raises(ValueError, match="tokens"):
            read("Abc de", 3, names, offsets)
    else:
        assert read("Abc de", 3, names, offsets) == wanted


@pytest.mark.parametrize("unknown", [None, float("nan"), float("-inf"), "much", [1]])
def test_an_unknown_log_probability_is_refused_within_the_option_alone(unknown):
    names, known = ["A", "bc", " d", "e", "!"], [None, -1.0, -2.0, -3.0, -4.0]
    assert read("Abc de", 3, names, values=[None, *known[1:]]) == [-2.0, -3.0]
    with pytest.raises(ValueError, match="it returns no log-probabilit"):
        read("Abc de", 3, names, values=[None, -1.0, unknown, -3.0, -4.0])


def test_a_body_that_is_no_completion_is_left_as_it_is():
    for body in (b"", b"[]", b'{"choices": []}', b'{"error": "no"}', b"\xff"):
        assert Echo("Abc", 1).take(body) == body


@pytest.mark.parametrize("text", ["", "[]", "-1.0", "[-1.0, null]", '["-1.0"]', "[NaN]", "{}"])
def test_a_text_that_was_kept_is_a_list_of_log_probabilities_or_refused(text):
    Echoed(3).check("[-1.0, -0.5]")
    with pytest.raises(ValueError, match="validation error"):
        Echoed(3).check(text)


def test_long_options_are_compared_by_the_mean_of_their_tokens():
    options = [likelihood(2, -3.0), likelihood(10, -12.0), likelihood(5, -6.0)]
    found = compared_to_prediction(options)
    assert (found["choice"], found["tied"]) == ("b", ["b", "c"])
    assert (found["choice_by_sum"], found["margin"]) == ("a", 0)
