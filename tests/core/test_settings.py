from pathlib import Path

import pytest

from alps.errors import DataError, UsageError
from alps.parsing import parse_settings, parse_words, part_words
from alps.settings import JudgeSettings, RunSettings
from tests.endtoend import run

NEEDED = ["task=extraction", "model=rules"]


def parse(*words: str) -> RunSettings:
    return parse_words([*NEEDED, *words], RunSettings)


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_words(words, RunSettings)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_words_become_typed_settings():
    settings = parse(
        "limit=5", "temperature=0.7", "seed=3", "timeout=1.5", "data=folder", "out=runs/a"
    )
    assert (settings.limit, settings.temperature, settings.seed, settings.timeout) == (
        5,
        0.7,
        3,
        1.5,
    )
    assert (settings.task, settings.model, settings.data, settings.out) == (
        "extraction",
        "rules",
        "folder",
        "runs/a",
    )


def test_what_is_not_said_has_its_default():
    settings = parse()
    assert (settings.judge, settings.data, settings.max_failures, settings.limit) == (
        "lexical",
        "samples",
        0.05,
        None,
    )


def test_a_value_may_hold_an_equals_sign():
    assert parse("out=a=b=c").out == "a=b=c"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("modle=rules", "model"),
        ("temprature=1", "temperature"),
        ("judge_api=x", "judge_api_base"),
        ("Limit=3", "limit"),
    ],
)
def test_a_key_with_a_typo_names_the_closest(typed, meant):
    key = typed.partition("=")[0]
    said = refused(*NEEDED, typed)
    assert said.startswith(f"unknown key '{key}' — did you mean '{meant}'?")


def test_a_key_that_resembles_none_names_them_all():
    said = refused(*NEEDED, "xyzzy=1")
    assert "did you mean" not in said
    assert "(known: " in said
    assert all(name in said for name in RunSettings.model_fields)


@pytest.mark.parametrize("word", ["limt", "--limit", "limit:5"])
def test_a_word_that_is_no_pair_says_what_is_expected(word):
    assert refused(*NEEDED, word).startswith(
        f"'{word}': expected key=value — did you mean 'limit'?"
    )


@pytest.mark.parametrize(
    ("typed", "share"), [("5%", 0.05), ("0.2", 0.2), ("0%", 0.0), ("100%", 1.0), ("12.5%", 0.125)]
)
def test_a_share_is_a_number_or_percent(typed, share):
    assert parse(f"max_failures={typed}").max_failures == pytest.approx(share)


def test_a_share_from_a_config_file_is_a_number():
    values = {"task": "extraction", "model": "rules", "max_failures": 0.25, "limit": 3}
    assert parse_settings(values, RunSettings).max_failures == 0.25


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "run.toml"


def test_a_config_file_gives_settings_and_words_come_first(config):
    config.write_text(
        'task = "extraction"\nmodel = "rules"\nlimit = 3\nseed = 7\n', encoding="utf-8"
    )
    settings = parse_words([f"config={config}", "limit=9"], RunSettings)
    assert (settings.model, settings.limit, settings.seed) == ("rules", 9, 7)


def test_a_typo_in_a_config_file_names_the_file_and_the_closest_key(config):
    config.write_text('modle = "rules"\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        parse(f"config={config}")
    assert str(caught.value) == f"{config}, modle: unknown key — did you mean 'model'?"


def test_a_value_in_a_config_file_that_does_not_fit_is_named_with_its_key(config):
    config.write_text("limit = 0\n", encoding="utf-8")
    assert refused(*NEEDED, f"config={config}") == f"{config}, limit=0: must be 1 or more"


def test_a_config_file_that_is_no_toml_is_named(config):
    config.write_text("limit: 3\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"run\.toml: not TOML"):
        parse(f"config={config}")


def test_a_config_file_that_does_not_exist_is_named(config):
    assert refused(*NEEDED, f"config={config}").startswith(f"config={config}: ")


def test_settings_of_a_judge_alone_know_no_model():
    assert parse_words(["judge=lexical"], JudgeSettings).judge == "lexical"
    with pytest.raises(UsageError, match="unknown key 'model'"):
        parse_words(["model=rules"], JudgeSettings)


def test_only_the_sampling_settings_that_were_given_are_sent():
    settings = parse("temperature=0", "max_tokens=9", "judge_temperature=0.5")
    assert settings.sampling() == {"temperature": 0.0, "max_tokens": 9}
    assert settings.judge_sampling() == {"temperature": 0.5}
    assert parse().sampling() == parse().judge_sampling() == {}


@pytest.mark.parametrize("name", ["out", "concurrency", "max_failures", "timeout"])
def test_how_a_run_is_carried_out_is_not_what_it_measures(name):
    assert name in RunSettings.model_fields
    assert name not in parse().experiment()


@pytest.mark.parametrize(
    "word", ["seed=1", "limit=2", "temperature=0.5", "judge_max_tokens=7", "split=dev"]
)
def test_what_a_run_measures_changes_with_its_settings(word):
    assert parse(word).experiment() != parse().experiment()


@pytest.mark.parametrize("key", ["api_base", "judge_api_base"])
@pytest.mark.parametrize(
    "address",
    [
        pytest.param("https://user:hunter22@host.example/v1", id="user and password"),
        pytest.param("https://hunter22@host.example:8443/v1", id="a key as the user"),
        pytest.param("https://host.example/v1?key=hunter22", id="a key in the query"),
        pytest.param("https://host.example/sk-hunter22abc/v1", id="a key in the path"),
        pytest.param("http://u:hunter22@[::1]:8000/v1", id="IPv6"),
        pytest.param("http://u:hunter22@host:port/v1", id="no address at all"),
        pytest.param("http://u:hunter22@[::1/v1", id="half an IPv6 address"),
        pytest.param("ftp://hunter22/v1", id="another scheme"),
    ],
)
def test_an_address_that_holds_a_secret_or_can_not_be_read_is_refused_without_showing_it(
    key, address
):
    with pytest.raises(UsageError, match=f"{key}=…") as refused:
        parse(f"{key}={address}")
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5_000, "1e999", "nan", "²", "²k", "-1e999"])
@pytest.mark.parametrize("key", ["limit", "max_cost", "max_total_tokens", "timeout", "k"])
def test_a_number_that_can_not_be_meant_is_one_short_line(key, number):
    said = refused("task=personamem", "model=rules", f"{key}={number}")
    assert said.startswith(f"{key}={number[:20]}")
    assert len(said) < 400


@pytest.mark.parametrize("key", ["patience", "batch_deadline", "shard"])
@pytest.mark.parametrize("number", ["٣", "５/５", "²", "1e5", "9" * 400, "inf"])
def test_a_time_and_a_shard_are_typed_in_plain_digits(key, number):
    assert refused("task=extraction", "model=rules", f"{key}={number}").startswith(f"{key}=")


@pytest.mark.parametrize("word", ["seed=" + "9" * 5_000, "seed=" + "9" * 300 + "/x", "x" * 5_000])
def test_a_word_too_long_for_a_name_is_one_short_line(tmp_path, word):
    done = run(tmp_path, "compare", word)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert len(done.stderr) < 400


def test_a_long_setting_is_no_folder():
    word = "description=" + "words " * 100
    assert part_words(["runs", word]) == (["runs"], [word])


@pytest.mark.parametrize("number", ["9" * 5_000, "1e999", "nan"])
def test_such_a_number_in_a_config_file_is_one_short_line(tmp_path, number):
    (tmp_path / "run.toml").write_text(f"max_cost = {number}")
    words = ["task=extraction", f"config={tmp_path / 'run.toml'}"]
    with pytest.raises((UsageError, DataError)) as caught:
        parse_words(words, RunSettings)
    said = str(caught.value)
    assert "run.toml" in said
    assert "\n" not in said
    assert len(said) < 400
