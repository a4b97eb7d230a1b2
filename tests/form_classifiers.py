"""Readers of the sentences of forgetting, and classifiers learnt from the forms of one seed."""

import re
from itertools import pairwise
from math import log

from alps.tasks.forgetting.samples import forms_of

PLACES = ("before", "first", "second")


def pattern(form, after=""):
    """Return what reads the sentences of a form: the role, the name, what it is for and not for."""
    escaped = re.sub(r"\\{(\w+)\\}", r"{\1}", re.escape(form + after))
    slots = {"name": r"\w+ (?P<name>\w+)", "role": r"(?P<role>[\w ]+?)"}
    slots |= {"use": r"(?P<use>[\w ]+?)", "leave": r"(?P<leave>[\w ]+?)"}
    # A sentence begins with a capital, and so may a slot.
    return re.compile(escaped.format(**slots), re.IGNORECASE)


class Reads:
    """What a user says in the forms of some seeds, as one who learnt those would read it."""

    def __init__(self, *seeds):
        drawn = [forms_of(seed) for seed in seeds]
        self.told = [pattern(form) for forms in drawn for form in forms.told]
        self.changed = [pattern(form) for forms in drawn for form in forms.changed]
        self.scoped = [pattern(form) for forms in drawn for form in forms.scoped]
        self.forget = [pattern(form) for forms in drawn for form in forms.forget]

    @staticmethod
    def first(patterns, text):
        matches = (pattern.search(text) for pattern in patterns)
        return next(filter(None, matches), None)


def classifier_of_changes(forms):
    """Return what is above 0 for a change, and below for a name that changes nothing."""
    return _weighed(map(of_change, forms.changed), map(of_change, forms.unchanged))


def classifier_of_scopes(forms):
    """Return what is above 0 where the first context is what the fact is for."""
    ordered = {True: [], False: []}
    for form in forms.scoped:
        use_first = form.index("{use}") < form.index("{leave}")
        slots = ("{1}", "{2}") if use_first else ("{2}", "{1}")
        text = form.replace("{use}", slots[0]).replace("{leave}", slots[1])
        ordered[use_first].append(of_scope(text))
    return _weighed(ordered[True], ordered[False], of_scope)


def of_change(form):
    """Return words and pairs of words, the order of name and role, the length and both ends."""
    words = re.findall(r"[\w{}']+", form.lower())
    ordered = form.lower().find("{role}") < form.lower().find("{name}")
    ends = ("first", words[0]), ("last", words[-1])
    length = len(words) // 3
    return {*words, *pairwise(words), ("ordered", ordered), *ends, length}


def of_scope(text):
    """Return words by the context that they precede or follow, and those near one."""
    parts = re.split(r"\{[12]\}", text.lower())
    found = set()
    for place, part in zip(PLACES, parts, strict=True):
        words = re.findall(r"[\w']+", part)
        found |= {(place, word) for word in words}
        found |= {(place, *pair) for pair in pairwise(words)}
    return found


def _weighed(positive, negative, features=of_change):
    """Return the log odds of a naive Bayes classifier, of the features that it has seen."""
    positive, negative = list(positive), list(negative)
    weights = {}
    for one in set().union(*positive, *negative):
        shares = []
        for seen in (positive, negative):
            shares.append((sum(one in found for found in seen) + 0.5) / (len(seen) + 1))
        weights[one] = log(shares[0] / shares[1])

    def weight(text):
        total = sum(weights.get(one, 0.0) for one in features(text))
        return total if abs(total) > 1e-9 else 0.0

    return weight
