"""The tables at the end of a run: figures as they are written, and names as they were given."""

import re
import shutil

import pytest

from alps.run.estimate import Stage
from alps.show.estimate import show_estimate
from alps.show.formatting import number, signed
from tests.tracks import alps_here


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["pred[b].jsonl", "pred[/x].jsonl", "one:two:dog:.jsonl"])
def test_a_name_that_looks_like_markup_is_shown_as_it_was_given(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert alps_here("run", "task=all", "model=rules", "limit=2", "out=rules").code == 0
    (tmp_path / name).parent.mkdir(exist_ok=True)
    shutil.copy("rules/predictions.jsonl", name)
    ran = alps_here(
        "run", "task=extraction,update", f"model=predictions:{name}", "limit=2", "out=[b]"
    )
    assert (ran.code, ran.err) == (0, "")
    said = re.sub(r"\s+", " ", ran.out)
    assert said.startswith(f"predictions:{name}: above the best trivial baseline on ")
    assert said.rstrip().endswith("RUN = [b]")
    shown = re.sub(r"\s+", " ", alps_here("show", "[b]").out)
    assert f"predictions:{name} on extraction, judged by lexical" in shown
    assert "Run folder: [b]" in shown


def test_an_estimate_shows_a_model_as_it_was_given(capsys):
    show_estimate(
        [Stage("generate", "openai/tiny[/b]:dog:", calls=2)], max_cost=None, max_total_tokens=None
    )
    assert "openai/tiny[/b]:dog:, answers" in capsys.readouterr().out


ROUNDED = {
    0.1234: (".123", "+.123"),
    -0.1234: ("-.123", "-.123"),
    **dict.fromkeys((0.0002, -0.0002, -0.0), (".000", ".000")),
    0.0006: (".001", "+.001"),
    -0.0006: ("-.001", "-.001"),
    -0.9996: ("-1.000", "-1.000"),
    4.25: ("4.250", "+4.250"),
    None: ("–", "–"),
}


@pytest.mark.parametrize(("value", "shown"), ROUNDED.items())
def test_what_rounds_to_nothing_has_no_sign(value, shown):
    assert (number(value), signed(value)) == shown
