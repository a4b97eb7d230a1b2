"""Every number of a site again, from the files alone and by other code than the site's."""

import json
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from alps.data.release import open_split, read_track
from alps.leaderboard.gold_data import own_track
from alps.leaderboard.pages.multiples import groups_of
from alps.leaderboard.references import REFERENCES, files_of_extensions
from alps.show.formatting import number, signed
from alps.stats.paired import holm, paired_difference
from alps.tasks import all_tracks


class Origins:
    """Every number again, from the files alone."""

    def __init__(self, submissions: Path) -> None:
        self.folder = submissions
        self.cards = {}
        for path in submissions.glob("*/submission.json"):
            self.cards[path.parent.name] = json.loads(path.read_text("utf-8"))

    @cache  # noqa: B019 - lives as long as the module's fixture
    def file(self, name: str):
        tables = {path.name: path for path in (REFERENCES, *files_of_extensions())}
        path = tables.get(name, self.folder / name)
        text = path.read_text("utf-8")
        if name.endswith(".jsonl"):
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text)

    def at(self, origin: str):
        name, _, pointer = origin.partition("#")
        value = self.file(name)
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value

    def computed(self, name: str, boards, *args: str):
        return getattr(self, f"_{name}")(boards, *args)

    def _on(self, about):
        """Yield the submissions on the data of a board and under its judge, with their track."""
        same = ["data_sha256", "n"]
        if about["metric"] not in all_tracks()[about["track"]].unjudged:
            same.append("judge_fingerprint")
        for slug, card in sorted(self.cards.items()):
            track = card["tracks"].get(about["track"])
            if track and all(track[name] == about[name] for name in same):
                yield slug, track

    def _members(self, boards, board):
        about = boards[board]
        for slug, track in self._on(about):
            score = track["scores"].get(about["metric"], {"value": None})["value"]
            if score is not None and self.cards[slug]["system"]["kind"] != "floor":
                yield slug

    def _systems(self, boards, board):
        return len(list(self._members(boards, board)))

    @cache  # noqa: B019
    def _ranks(self, track, metric, members):
        scores = {slug: self.records_of(slug, track, metric) for slug in members}
        sessions = sessions_of(track)
        found, pairs = [], list(combinations(members, 2))
        for one, other in pairs:
            shared = sorted(scores[one].keys() & scores[other].keys())
            first, second = ([scores[slug][name] for name in shared] for slug in (one, other))
            clusters = [sessions[name] for name in shared]
            found.append(paired_difference(np.array(first), np.array(second), clusters))
        better, worse = Counter(), Counter()
        corrected = holm([difference.p for difference in found])
        for (one, other), difference, p in zip(pairs, found, corrected, strict=True):
            if p <= 0.05:
                ahead = difference.estimate.value > 0
                winner, loser = (one, other) if ahead else (other, one)
                better[loser] += 1
                worse[winner] += 1
        return {slug: (1 + better[slug], len(members) - worse[slug]) for slug in members}

    def _rank(self, boards, board, slug):
        about = boards[board]
        members = tuple(self._members(boards, board))
        best, worst = self._ranks(about["track"], about["metric"], members)[slug]
        return best, str(best) if best == worst else f"{best}–{worst}"

    def _above(self, boards, board, slug):
        """The difference to the strongest floor, mean by mean: all records have both scores."""
        about = boards[board]
        track, metric = about["track"], about["metric"]
        floors = []
        for other, row in self._on(about):
            for floor in row["floors"].values():
                floors.append(floor["scores"].get(metric, {}).get("value"))
            if self.cards[other]["system"]["kind"] == "floor":
                floors.append(self.value_of(other, track, metric))
        best = max(value for value in floors if value is not None)
        value = round(self.value_of(slug, track, metric) - best, 6)
        return value, signed(value)

    def _record_score(self, boards, slug, track, metric, name):
        value = round(self.records_of(slug, track, metric)[name], 6)
        return value, number(value)

    @cache  # noqa: B019
    def records_of(self, slug, track, metric):
        found = {}
        for row in self.file(f"{slug}/{track}/scores.jsonl"):
            value = row["scores"].get(metric) if isinstance(row["scores"], dict) else None
            if type(value) in (int, float):
                found[row["benchmark_id"]] = value
        return found

    def members_of(self, slug, track, trait, group):
        found = groups_of(own_track(track))[trait.replace("_", " ")][group.replace("_", " ")]
        scores = self.cards[slug]["tracks"][track]["scores"]
        leads = (metric.name for metric in all_tracks()[track].metrics if metric.headline)
        records = self.records_of(slug, track, next(filter(scores.get, leads)))
        return [records[name] for name in found if name in records]

    def _slice(self, boards, *args):
        members = self.members_of(*args)
        value = round(sum(members) / len(members), 6)
        return value, number(value)

    def _slice_n(self, boards, *args):
        return len(self.members_of(*args))

    def value_of(self, slug, track, metric):
        return self.cards[slug]["tracks"][track]["scores"][metric]["value"]

    def _submissions(self, boards):
        return len(self.cards)

    def _failed(self, boards, slug, track):
        return sum(self.cards[slug]["tracks"][track]["failed_predictions"].values())

    def _tokens(self, boards, slug, track):
        calls = self.cards[slug]["runs"][self.cards[slug]["tracks"][track]["run"]]["calls"]
        return calls["prompt_tokens"] + calls["completion_tokens"]

    def _tracks(self, boards, slug):
        return len(self.cards[slug]["tracks"])

    def _judge_systems(self, boards, judge):
        count = 0
        for card in self.cards.values():
            used = [n for n, t in card["tracks"].items() if t["judge_fingerprint"] == judge]
            count += any(all_tracks()[name].judged for name in used)
        return count

    def _judge_boards(self, boards, judge):
        return sum(about["judge_fingerprint"] == judge for about in boards.values())

    def _data_systems(self, boards, track, sha256):
        held = (card["tracks"].get(track, {}).get("data_sha256") for card in self.cards.values())
        return sum(found == sha256 for found in held)


@cache
def sessions_of(track):
    folder = open_split("samples", None).track("task3" if track.startswith("task3") else track)
    found = {}
    for pair in read_track(folder):
        names = [query["query_id"] for query in pair.input["input"].get("queries") or ()]
        names = names if len(names) > 1 else [pair.input["benchmark_id"]]
        found |= dict.fromkeys(names, pair.input["session_id"])
    return found


def reads_as(said, value):
    """Tell whether what is shown is the value, rounded to the places that are shown."""
    number = said.replace(",", "").lstrip("$").removesuffix(" s")
    if number.endswith(" ms"):
        return float(number[:-3]) == pytest.approx(1000 * value, rel=5e-3)
    places = len(number.partition(".")[2])
    return abs(float(number) - value) <= 0.5 * 10**-places + 1e-12
