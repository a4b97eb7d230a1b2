"""Names of systems: what reads as another's is refused, what shows nothing is none, histories are
joined by hand.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alps.errors import UsageError
from alps.leaderboard.commands import verify_command
from alps.leaderboard.names import fault_of_name
from alps.leaderboard.packing import pack
from alps.leaderboard.untrusted import fault_of, read_alike, skeleton
from alps.leaderboard.verify import Options, verify
from tests.submissions import SLUG, WHO, card_of, changed, forge, page_in, write_review

LATER, DAY = "thumb-rules-2", "2026-02-28"


RULES = ("rules", "RuIes", "Ru1es", "RULE\u0405", "Ru\u3164les", "Ru\u034fles\ufe0f")
RULES += ("R\u200bules\u2060",)
PAYPAL = "\u0440\u0430\u0443\u0440\u0430\u04cf"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("Rules", other) for other in RULES),
        *(("bm25", other) for other in ("brn25", "BM2\u2075", "\uff42\uff4d25")),
        ("paypal", PAYPAL),
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
    for text in ("Rules of thumb", PAYPAL, "㈝ ㏵ ⅿ", "GRÖSSE 007", "日本語"):
        assert skeleton(skeleton(text)) == skeleton(text)


@pytest.mark.parametrize(
    "text",
    ["\u3164", "A\u3164", "\u115f\u1160", "\uffa0", "x\u034f", "\u2800", "a\ufe0f", "\U000e0041"],
)
def test_what_shows_nothing_is_refused_in_a_name(text: str) -> None:
    assert "invisible character" in (fault_of(text) or "")


@pytest.fixture
def both(thumb: Path, tmp_path: Path) -> Path:
    """The folder of submissions, with one of the same name and organisation beside the first."""
    for slug in (SLUG, LATER):
        shutil.copytree(thumb, tmp_path / "submissions" / slug)
    forge(tmp_path / "submissions" / LATER, lambda card: card.update(slug=LATER, submitted=DAY))
    return tmp_path / "submissions"


def joined(both: Path, site: Path) -> list[bool]:
    """Build the site; tell of each of the two whether its page leads to the other."""
    pages = [page_in(both, site, f"systems/{slug}") for slug in (SLUG, LATER)]
    return [f"{other}.html" in page for other, page in zip((LATER, SLUG), pages, strict=True)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("\U0001f525 best", "name: U+1F525 best contains the character U+1F525"),
        ("\u2705 best", "name: \\u2705 best contains the character U+2705"),
    ],
)
def test_a_sign_in_a_name_is_told_by_its_number(shelf, tmp_path, name, told):
    details = replace(WHO, name=name)
    with pytest.raises(UsageError) as refused:
        pack([shelf.run], details, out=tmp_path / "best")
    assert str(refused.value).startswith(told)


@pytest.mark.release
def test_taking_name_and_organisation_joins_no_history(both: Path, tmp_path: Path) -> None:
    assert card_of(both / SLUG)["org"] == card_of(both / LATER)["org"]
    assert joined(both, tmp_path / "site") == [False, False]
    assert serious(both / LATER) == [("name", "name")]


def test_a_maintainer_joins_a_history_and_the_site_shows_it(both: Path, tmp_path: Path) -> None:
    assert verify_command([str(both / LATER), f"continues={SLUG}", "record=yes"]) == 0
    assert json.loads((both / LATER / "review.json").read_bytes())["continues"] == SLUG
    assert serious(both / SLUG) == serious(both / LATER) == []
    assert joined(both, tmp_path / "site") == [True, True]


def serious(folder: Path, **options: Any) -> list[tuple[str, str]]:
    """Return the kinds and places of what refuses a submission."""
    found = verify(folder, Options(**options)).findings
    return [(finding.code, finding.where) for finding in found if finding.severity == "serious"]


def test_a_change_that_joins_itself_is_refused(both: Path, tmp_path: Path) -> None:
    before = shutil.copytree(both, tmp_path / "before", ignore=shutil.ignore_patterns(LATER))
    write_review(both / LATER, status="schema-valid", date=DAY, continues=SLUG)
    assert {"review", "name"} <= {code for code, _ in serious(both / LATER, base=str(before))}
    assert not serious(both / LATER, base=str(before), continues=SLUG, reviewed=True)


def test_joining_one_that_is_not_there_is_a_mistake(both: Path) -> None:
    with pytest.raises(UsageError, match=r"continues=nobody: no submission with this name next to"):
        verify_command([str(both / LATER), "continues=nobody"])


@pytest.mark.release
def test_a_change_of_a_submission_that_is_in_the_other_copy_is_refused(both, tmp_path):
    shutil.rmtree(both / LATER)
    before, ours = shutil.copytree(both, tmp_path / "before"), both / SLUG
    forge(ours, changed("notes", "Changed."))
    assert [where for _, where in serious(ours, base=str(before))] == ["the change"]
    assert not serious(ours, base=str(before), continues=SLUG)
    listed = verify(ours, Options(changed=(f"leaderboard/submissions/{SLUG}/submission.json",)))
    told = "whether the submission is new; to check this, set base=REF or base=DIR"
    assert told in listed.unchecked


def listed(text):
    """Return the names of a text, several in a line."""
    return [name for line in text.strip("\n").split("\n") for name in line.split(" | ")]


HONEST = listed("""
Qwen3-32B | GPT‑4.1 mini | Llama-4 Maverick | O1 | C++ Memory | R² Memory | Qwen™ | 系统
公式记忆 | 記憶システム | 메모리 | память | नज़र स्मृति | ระบบความจำ | bộ nhớ | نظام | نظام GPT
مساعد 2 | מערכת זיכרון | Größe | Système à mémoire | μ-Mem | Rules of thumb | Mem0 | A-Mem
MemoryOS (k=5) | GPT-4o with Mem0 (top 5) | BM25 | Best-of-N | Winner-Take-All
Self-Verifier RAG | Reproducible Memory | Paper Trail | MultiRank 12 | Best-on-demand | O f M
第1世代 | 21位置 Mem | Trust-aware Memory | LoRA rank 16 | RAG top-5 | Calibrated Memory
Human-like Memory | Number 5 | Dr. No | TopK-Mem | First-Token | 1st-order Mem | Top10 | Top2Vec
TopLanguage | RankLLaMA | Rank-BM25 | Best-first search memory | Best Buy | Second Brain
First principles | Golden Retriever | Fool's Gold | PaperQA | Premier League Memory
Place Learning | Leader Election Memory | IST Lisboa | Oracle Labs | Type-Checked Memory
Office Memory | Mem-1 | MEM1 | DeepSeek-R1 | o1-mini | Phi 1.5 | 1-bit Mem | 4o | H₂O Memory | R²
α-Mem | ∞-Mem | Mem→Graph | A↔B | C# | AT&T | Mem+ | $MEM | Yahoo! | 人工记忆 | 人格记忆
第一性原理 | 空间记忆 | 无限记忆 | 唯一 | 北京大学 | 최고운 | Müller & Söhne
Université de Genève | می\u200cخواهم | क्\u200dष | МГУ | 東京大学
""")
CLAIMS = listed("""
✓ reproduced by the maintainers | Mem, reported by the paper | Official Mem | Mem (verified)
Verified-Memory | VerifiedMemory | OFFICIAL | Vérifié Mem | Оfficial Mem | 0fficial Mem
𝗩𝗲𝗿𝗶𝗳𝗶𝗲𝗱 Mem | V e r i f i e d | v3rified | Ｏｆｆｉｃｉａｌ | Mem ʀeproduced | 官方记忆
официальный Mem | Mem رسمي | offiziell | Mem oficial | self-reported | re-scored Mem
Format-checked Mem | Mem, judged again | Mem by the paper | Strong baseline | SOTA Mem
Mem by the paper | state-of-the-art Mem | Mem (unverified) | #1 Mem | Mem #1 | Mem ＃1 | № 1 Mem
Mem No. 1 | Mem (rank 1) | 1st place: Mem | ✅ Mem | Mem ☑ | 🥇 Mem | ★ Mem | Mem √ | ① Mem
❶ Mem | ⓥerified | V.e.r.i.f.i.e.d Mem | Mem · o f f i c i a l | Mem ver i fied | Mem (trusted)
Mem, ranked first | Best on ALPS | １位 Mem | Mem 第一名 | ALPS Team | Rang 1: Mem
Mem (geprüft) | проверенная Mem | 공식 Mem | 認証済み Mem | Human | without memory | – | --- | …
!? | n/a | none | People | placebo | No memory | Memאב | אבMem 2 | 1st | Mem 1st | lst Mem | Ist
Top 1 Mem | Top1Mem | Тop 1 Mem | Top | Top Mem | No.1 | Nº1 Mem | N°1 | 1º Mem | 1er Mem
1-е место | rank1 | Place 1 | Mem #０1 | Best Mem | The best memory | World's best
Leading system | unbeaten | Mem, leader!1st | 最佳 | 最强记忆 | 第一 | 第一位 Mem | 排名第一
金牌 Mem | 榜首 | 首位 Mem | 第１ | 公式 Mem | 認証 | 最高の記憶 | 優勝 | 1위 | 1등 Mem
최고의 Mem | 최강 Mem | 검증된 Mem | Beste Mem | meilleure mémoire | mejor memoria
Лучшая память | победитель | en iyi | الأفضل | הטוב ביותר | सर्वश्रेष्ठ | najlepszy
tốt nhất Mem | ganador | ดีที่สุด | officiel | officieel | oficjalny | resmi Mem | επίσημο
chính thức | ověřeno | doğrulanmış | zweryfikowany | terverifikasi | virallinen | офіційний
bekræftet | (paper) | Mem (paper) | Mem [the paper] | Mem, original | Mem paper | (authors)
gold | Mem ↑1 | ↑ Mem | Mem →1 | Mem ▲ | Mem ⬆ | Mem¹ | Mem ⁽¹⁾ | Mem ˢᵗᵃᵗᵉ | verified✔ | ⭐ Mem
Mem ✪ | Mem 🏆 | Mem 🎖\ufe0f | Mem 1\ufe0f⃣ | 🅥erified | Mem ☺ | Mem ❗ | оfficial
offi\u200bcial | of\u00adficial | Mem\u2060 | o\u034fM | M\ufe0fem | \u1160 | \u3164
Mem \u202eabc | abc\u202d | \u2067Mem\u2069 | Mem\u200dory | ver\u2060ified | — | ‒‒ | ⸺ | ﹣
ー | 一 | ㅡ | 〡 | 인간 | 人类 | люди | нет | 无 | upper bound
""")


def test_an_honest_name_of_any_language_may_stand():
    assert {name: fault for name in HONEST if (fault := fault_of_name(name))} == {}


def test_a_name_that_claims_a_status_or_shows_nothing_has_a_fault():
    assert [name for name in CLAIMS if not fault_of_name(name)] == []
