"""Names of systems: what reads as another's is refused, what shows nothing is none, histories are
joined by hand.
"""

import json
import shutil
from pathlib import Path

import pytest

from alps.leaderboard.commands import verify_command
from alps.leaderboard.site import build
from alps.leaderboard.untrusted import fault_of, read_alike, skeleton
from alps.leaderboard.verify import Options, verify
from tests.submissions import SLUG, card_of, forge, pack_rules

LATER = "thumb-rules-2"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Rules", "rules"),
        ("Rules", "RuIes"),
        ("Rules", "Ru1es"),
        ("Rules", "RULE\u0405"),
        ("Rules", "Ru\u3164les"),
        ("Rules", "Ru\u034fles\ufe0f"),
        ("Rules", "R\u200bules\u2060"),
        ("bm25", "brn25"),
        ("bm25", "BM2\u2075"),
        ("bm25", "\uff42\uff4d25"),
        ("paypal", "\u0440\u0430\u0443\u0440\u0430\u04cf"),
        ("About me", "About\u00a0 me"),
        ("Caf\u00e9", "CAFE\u0301"),
        ("fine", "\ufb01ne"),
        ("Größe", "GRÖSSE"),
        ("alps", "\U0001d4ea\U0001d4f5\U0001d4f9\U0001d4fc"),
        ("OO7", "007"),
    ],
)
def test_names_that_read_alike_are_alike(one: str, other: str) -> None:
    assert read_alike(one, other)
    assert read_alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Model 1", "Model 2"),
        ("Model i", "Model 1"),
        ("GPT-4.1", "GPT-4.1-mini"),
        ("Rules", "Rule"),
        ("記憶", "記録"),
        ("Ёж", "Ежи"),
        ("Mem0", "Memory"),
    ],
)
def test_names_that_read_otherwise_are_not(one: str, other: str) -> None:
    assert not read_alike(one, other)


def test_a_skeleton_is_its_own() -> None:
    for text in (
        "Rules of thumb",
        "\u0440\u0430\u0443\u0440\u0430\u04cf",
        "㈝ ㏵ ⅿ",
        "GRÖSSE 007",
        "日本語",
    ):
        assert skeleton(skeleton(text)) == skeleton(text)


@pytest.mark.parametrize(
    "text",
    ["\u3164", "A\u3164", "\u115f\u1160", "\uffa0", "x\u034f", "\u2800", "a\ufe0f", "\U000e0041"],
)
def test_what_shows_nothing_is_refused_in_a_name(text: str) -> None:
    assert "invisible character" in (fault_of(text) or "")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_rules(tmp_path_factory.mktemp("packed"))


@pytest.fixture
def both(packed: Path, tmp_path: Path) -> Path:
    """The folder of submissions, with one of the same name and organisation beside the first."""
    for slug in (SLUG, LATER):
        shutil.copytree(packed, tmp_path / "submissions" / slug)
    forge(
        tmp_path / "submissions" / LATER,
        lambda card: card.update(slug=LATER, submitted="2026-02-28"),
    )
    return tmp_path / "submissions"


def names_of(site: Path, slug: str) -> str:
    return (site / "systems" / f"{slug}.html").read_text(encoding="utf-8")


def test_taking_name_and_organisation_joins_no_history(both: Path, tmp_path: Path) -> None:
    assert card_of(both / SLUG)["org"] == card_of(both / LATER)["org"]
    site = build(both, tmp_path / "site").out
    assert f"{LATER}.html" not in names_of(site, SLUG)
    assert f"{SLUG}.html" not in names_of(site, LATER)
    found = verify(both / LATER)
    assert [finding.where for finding in found.findings if finding.code == "name"] == ["name"]
    assert found.serious


def test_a_maintainer_joins_a_history_and_the_site_shows_it(both: Path, tmp_path: Path) -> None:
    assert verify_command([str(both / LATER), f"continues={SLUG}", "record=yes"]) == 0
    assert json.loads((both / LATER / "review.json").read_bytes())["continues"] == SLUG
    for slug in (SLUG, LATER):
        assert not [finding for finding in verify(both / slug).findings if finding.code == "name"]
    site = build(both, tmp_path / "site").out
    assert f"{LATER}.html" in names_of(site, SLUG)
    assert f"{SLUG}.html" in names_of(site, LATER)


def test_a_change_that_joins_itself_is_refused(both: Path, tmp_path: Path) -> None:
    shutil.copytree(both, tmp_path / "before", ignore=shutil.ignore_patterns(LATER))
    review = {
        "status": "schema-valid",
        "date": "2026-02-28",
        "tracks": {},
        "note": None,
        "continues": SLUG,
    }
    (both / LATER / "review.json").write_text(json.dumps(review), encoding="utf-8")
    found = verify(both / LATER, Options(base=str(tmp_path / "before")))
    assert {"review", "name"} <= {
        finding.code for finding in found.findings if finding.severity == "serious"
    }
    forged = verify(
        both / LATER, Options(base=str(tmp_path / "before"), continues=SLUG, reviewed=True)
    )
    assert not forged.serious


def test_joining_one_that_is_not_there_is_a_mistake(both: Path) -> None:
    from alps.errors import UsageError

    with pytest.raises(UsageError, match=r"continues=nobody: no submission of that name beside"):
        verify_command([str(both / LATER), "continues=nobody"])


def test_a_change_of_a_submission_that_is_in_the_other_copy_is_refused(
    both: Path, tmp_path: Path
) -> None:
    shutil.rmtree(both / LATER)
    shutil.copytree(both, tmp_path / "before")
    forge(both / SLUG, lambda card: card.update(notes="Changed."))
    found = verify(both / SLUG, Options(base=str(tmp_path / "before")))
    assert [finding.where for finding in found.findings if finding.severity == "serious"] == [
        "the change"
    ]
    assert not verify(both / SLUG, Options(base=str(tmp_path / "before"), continues=SLUG)).serious
    listed = verify(
        both / SLUG, Options(changed=(f"leaderboard/submissions/{SLUG}/submission.json",))
    )
    assert "whether the submission is a new one: give base=REF or base=DIR" in listed.unchecked
