"""Memory systems of the tests of forgetting: what they keep, read, delete and return."""

import json
import random
import re

from alps.tasks.forgetting.samples import CONTEXTS, ROLES, SURNAMES, forms_of
from alps.tasks.forgetting.task import REFUSAL
from tests.form_classifiers import classifier_of_changes, classifier_of_scopes, form_of


class Keeps:
    """Returns everything a user told; others break or mend one thing of it."""

    def __init__(self):
        self.told, self.calls, self.inside = {}, [], 0

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


class Empty(Keeps):
    def texts(self, user, query):
        return []


class Refuses(Keeps):
    def texts(self, user, query):
        return [REFUSAL]


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


class Classifies(Learnt):
    """Finds names and roles in any sentence, and weighs words by what they said in one seed."""

    reads = Reads()

    def __init__(self, seed):
        super().__init__()
        self.changes = classifier_of_changes(forms_of(seed))
        self.scopes = classifier_of_scopes(forms_of(seed))

    def texts(self, user, query):
        said = Keeps.texts(self, user, query)
        for role in ROLES:
            facts = [(name, text) for text in said if role in text for name in SURNAMES]
            facts = [(name, text) for name, text in facts if name in text]
            if role in query and facts:
                yield from self.of_role(role, facts, query)

    def of_role(self, role, facts, query):
        name, text = facts[-1]
        if len(facts) > 1 and self.changes(form_of(text, name, role)) > 0:
            return [text]
        lowered = text.lower()
        contexts = [one for one in CONTEXTS if one in lowered]
        if len(contexts) == 2 and "This is about" in query:
            contexts.sort(key=lowered.index)
            scope = re.split(r"(?<=[.]) ", lowered[text.index(name) :], maxsplit=1)[-1]
            weight = self.scopes(scope.replace(contexts[0], "{1}").replace(contexts[1], "{2}"))
            for one, fits in zip(contexts, (weight >= 0, weight <= 0), strict=True):
                if one in query and not fits:
                    return []
        return [text for _, text in facts]


class EachRoleLatest(Learnt):
    """Returns the latest text that names a role, whatever it says."""

    reads = Reads()

    def texts(self, user, query):
        latest = {}
        for text in Keeps.texts(self, user, query):
            latest |= dict.fromkeys((role for role in ROLES if f"{role}" in text), text)
        return [text for role, text in latest.items() if role in query]


class FormerlyFirst(Learnt):
    """Says of each role that the first name is past and the last one holds, whatever was said."""

    reads = Reads()
    joint = "{last}, formerly {first}"

    def texts(self, user, query):
        said = Keeps.texts(self, user, query)
        for role in ROLES:
            names = [name for text in said if role in text for name in SURNAMES if name in text]
            if role in query and names:
                last, first = names[-1], names[0]
                yield self.joint.format(first=first, last=last) if first != last else first


class ReplacedFirst(FormerlyFirst):
    joint = "{first} was replaced by {last}"


class OneStatement(Learnt):
    """Returns all that was said of the roles of a query as one statement, without punctuation."""

    reads = Reads()
    joint = " "

    def texts(self, user, query):
        roles = [role for role in ROLES if role in query]
        said = [text for text in Keeps.texts(self, user, query) if any(r in text for r in roles)]
        return [self.joint.join(re.sub(r"[^\w ]", "", text) for text in said)]


class Parrot(Learnt):
    """Returns every text, and deletes those that it is asked to."""

    reads = Reads()


class Listed(OneStatement):
    joint = "\n- "


class WithCommas(OneStatement):
    joint = ", "


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
