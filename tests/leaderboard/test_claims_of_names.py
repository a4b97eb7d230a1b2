"""Names of systems that claim what boards say themselves; names of all languages that may stand."""

from pathlib import Path

import pytest

from alps.leaderboard.names import fault_of_name
from tests.endtoend import one_line, run
from tests.submissions import Shelf, forge, refused, said

HONEST = (
    *("Qwen3-32B", "GPT‑4.1 mini", "Llama-4 Maverick", "O1", "C++ Memory", "R² Memory", "Qwen™"),
    *("系统", "公式记忆", "記憶システム", "메모리", "память", "नज़र स्मृति", "ระบบความจำ", "bộ nhớ"),
    *("نظام", "نظام GPT", "مساعد 2", "מערכת זיכרון", "Größe", "Système à mémoire", "μ-Mem"),
    *("Rules of thumb", "Mem0", "A-Mem", "MemoryOS (k=5)", "GPT-4o with Mem0 (top 5)", "BM25"),
    *("Best-of-N", "Winner-Take-All", "Self-Verifier RAG", "Reproducible Memory", "Paper Trail"),
    *("MultiRank 12", "Best-on-demand", "O f M", "第1世代", "21位置 Mem", "Trust-aware Memory"),
    *("LoRA rank 16", "RAG top-5", "Calibrated Memory", "Human-like Memory", "Number 5", "Dr. No"),
    *("TopK-Mem", "First-Token", "1st-order Mem", "Top10", "Top2Vec", "TopLanguage", "RankLLaMA"),
    *("Rank-BM25", "Best-first search memory", "Best Buy", "Second Brain", "First principles"),
    *("Golden Retriever", "Fool's Gold", "PaperQA", "Premier League Memory", "Place Learning"),
    *(
        "Leader Election Memory",
        "IST Lisboa",
        "Oracle Labs",
        "Type-Checked Memory",
        "Office Memory",
    ),
    *("Mem-1", "MEM1", "DeepSeek-R1", "o1-mini", "Phi 1.5", "1-bit Mem", "4o", "H₂O Memory"),
    *("R²", "α-Mem", "∞-Mem", "Mem→Graph", "A↔B", "C#", "AT&T", "Mem+", "$MEM", "Yahoo!"),
    *("人工记忆", "人格记忆", "第一性原理", "空间记忆", "无限记忆", "唯一", "北京大学", "최고운"),
    *("Müller & Söhne", "Université de Genève", "می\u200cخواهم", "क्\u200dष", "МГУ", "東京大学"),
)
CLAIMS = (
    *("✓ reproduced by the maintainers", "Mem, reported by the paper", "Official Mem"),
    *("Mem (verified)", "Verified-Memory", "VerifiedMemory", "OFFICIAL", "Vérifié Mem"),
    *(
        "Оfficial Mem",
        "0fficial Mem",
        "𝗩𝗲𝗿𝗶𝗳𝗶𝗲𝗱 Mem",
        "V e r i f i e d",
        "v3rified",
        "Ｏｆｆｉｃｉａｌ",
    ),
    *("Mem ʀeproduced", "官方记忆", "официальный Mem", "Mem رسمي", "offiziell", "Mem oficial"),
    *(
        "self-reported",
        "re-scored Mem",
        "Format-checked Mem",
        "Mem, judged again",
        "Mem by the paper",
    ),
    *(
        "Strong baseline",
        "SOTA Mem",
        "Mem by the paper",
        "state-of-the-art Mem",
        "Mem (unverified)",
    ),
    *("#1 Mem", "Mem #1", "Mem ＃1", "№ 1 Mem", "Mem No. 1", "Mem (rank 1)", "1st place: Mem"),
    *("✅ Mem", "Mem ☑", "🥇 Mem", "★ Mem", "Mem √", "① Mem", "❶ Mem", "ⓥerified"),
    *("V.e.r.i.f.i.e.d Mem", "Mem · o f f i c i a l", "Mem ver i fied", "Mem (trusted)"),
    *("Mem, ranked first", "Best on ALPS", "１位 Mem", "Mem 第一名", "ALPS Team", "Rang 1: Mem"),
    *("Mem (geprüft)", "проверенная Mem", "공식 Mem", "認証済み Mem", "Human", "without memory"),
    *("–", "---", "…", "!?", "n/a", "none", "People", "placebo", "No memory"),
    *("Memאב", "אבMem 2"),
    *("1st", "Mem 1st", "lst Mem", "Ist", "Top 1 Mem", "Top1Mem", "Тop 1 Mem", "Top", "Top Mem"),
    *("No.1", "Nº1 Mem", "N°1", "1º Mem", "1er Mem", "1-е место", "rank1", "Place 1", "Mem #０1"),
    *(
        "Best Mem",
        "The best memory",
        "World's best",
        "Leading system",
        "unbeaten",
        "Mem, leader!1st",
    ),
    *("最佳", "最强记忆", "第一", "第一位 Mem", "排名第一", "金牌 Mem", "榜首", "首位 Mem", "第１"),
    *(
        "公式 Mem",
        "認証",
        "最高の記憶",
        "優勝",
        "1위",
        "1등 Mem",
        "최고의 Mem",
        "최강 Mem",
        "검증된 Mem",
    ),
    *("Beste Mem", "meilleure mémoire", "mejor memoria", "Лучшая память", "победитель", "en iyi"),
    *("الأفضل", "הטוב ביותר", "सर्वश्रेष्ठ", "najlepszy", "tốt nhất Mem", "ganador", "ดีที่สุด"),
    *("officiel", "officieel", "oficjalny", "resmi Mem", "επίσημο", "chính thức", "ověřeno"),
    *("doğrulanmış", "zweryfikowany", "terverifikasi", "virallinen", "офіційний", "bekræftet"),
    *(
        "(paper)",
        "Mem (paper)",
        "Mem [the paper]",
        "Mem, original",
        "Mem paper",
        "(authors)",
        "gold",
    ),
    *("Mem ↑1", "↑ Mem", "Mem →1", "Mem ▲", "Mem ⬆", "Mem¹", "Mem ⁽¹⁾", "Mem ˢᵗᵃᵗᵉ", "verified✔"),
    *("⭐ Mem", "Mem ✪", "Mem 🏆", "Mem 🎖️", "Mem 1️⃣", "🅥erified", "Mem ☺", "Mem ❗"),
    *("оfficial", "offi\u200bcial", "of\u00adficial", "Mem\u2060", "o\u034fM", "M\ufe0fem", "ᅠ", "ㅤ"),
    *("Mem \u202eabc", "abc\u202d", "\u2067Mem\u2069", "Mem\u200dory", "ver\u2060ified"),
    *(
        "—",
        "‒‒",
        "⸺",
        "﹣",
        "ー",
        "一",
        "ㅡ",
        "〡",
        "인간",
        "人类",
        "люди",
        "нет",
        "无",
        "upper bound",
    ),
)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_name_of_any_language_may_stand(name: str) -> None:
    assert fault_of_name(name) is None


@pytest.mark.parametrize("name", CLAIMS)
def test_a_name_that_claims_a_status_or_shows_nothing_has_a_fault(name: str) -> None:
    assert fault_of_name(name)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.mark.parametrize(
    ("field", "name", "words"),
    [
        ("name", "✓ reproduced by the maintainers", "holds the sign U+2713"),
        ("name", "Thumb (verified)", "says «verified», which boards say in columns of their own"),
        ("name", "–", "has no letter and no digit"),
        ("org", "Official Lab", "org: Official Lab says «Official»"),
        ("name", "GРT-5.2", "a row of the references"),
        ("name", "Меm0", "a row of the references"),
    ],
)
def test_a_submission_is_refused_by_such_a_name(
    shelf: Shelf, tmp_path: Path, field: str, name: str, words: str
) -> None:
    folder = shelf.copy(tmp_path)
    forge(folder, lambda card: card.update({field: name}))
    refused(shelf.verify(folder), "name", words)


def test_the_name_of_a_reference_row_is_looked_at_by_a_person(shelf: Shelf, tmp_path: Path) -> None:
    folder = shelf.copy(tmp_path)
    forge(folder, lambda card: card.update(name="Mem0"))
    found = shelf.verify(folder)
    assert not found.serious
    assert "the model is rules" in said(found, "name").what


def test_submit_refuses_such_a_name_in_one_line(shelf: Shelf, tmp_path: Path) -> None:
    words = ("name=Thumb (official)", f"out={tmp_path / 'thumb'}", "public=yes")
    done = run(tmp_path, "submit", str(shelf.run), *words)
    assert done.returncode == 2
    assert one_line(done) == (
        "alps: name: Thumb (official) says «official», which boards say in columns of their own; "
        "choose another name\n"
    )
    assert not (tmp_path / "thumb").exists()
