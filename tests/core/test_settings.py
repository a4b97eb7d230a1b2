"""Settings: words and config files as they are read, and what is told of those that do not fit."""

import pytest

from alps.errors import AlpsError, DataError, UsageError
from alps.ext.calibration.settings import CalibrateSettings
from alps.settings import JudgeSettings, RunSettings, parse_settings, parse_words, part_words
from tests.endtoend import run

NEEDED = ["task=extraction", "model=rules"]


def parse(*words: str) -> RunSettings:
    return parse_words([*NEEDED, *words], RunSettings)


def refused(*words: str, settings: type = RunSettings, error: type[AlpsError] = UsageError) -> str:
    with pytest.raises(error) as caught:
        parse_words(words, settings)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_words_become_typed_settings_and_what_is_not_said_has_its_default():
    settings = parse(
        "limit=5", "temperature=0.7", "seed=3", "timeout=1.5", "data=folder", "out=a=b=c"
    )
    numbers = (settings.limit, settings.temperature, settings.seed, settings.timeout)
    assert numbers == (5, 0.7, 3, 1.5)
    texts = (settings.task, settings.model, settings.data, settings.out)
    assert texts == ("extraction", "rules", "folder", "a=b=c")
    settings = parse()
    found = (settings.judge, settings.data, settings.max_failures, settings.limit)
    assert found == ("lexical", "samples", 0.05, None)


UNFIT = {
    "limit=many": "limit=many: must be a whole number",
    "limit=2.5": "limit=2.5: must be a whole number",
    "limit=0": "limit=0: must be 1 or more",
    "top_p=1.5": "top_p=1.5: must be 1 or less",
    "timeout=0": "timeout=0: must be more than 0",
    "temperature=hot": "temperature=hot: must be a number",
    "temperature=inf": "temperature=inf: must be a finite number",
    "seed=-1": "seed=-1: must be 0 or more",
    "max_failures=150%": "max_failures=150%: must be 1 or less",
    "max_failures=few%": "max_failures=few%: must be a number",
    "dry_run=maybe": "dry_run=maybe: must be yes or no",
    "persona=memory": "persona=memory: must be 'shown' or 'hidden'",
    "api_base=localhost:1": "api_base=…: an address must start with http:// or https://",
    "split=": "split=: empty; leave it out",
    "modle=rules": "unknown key 'modle' — did you mean 'model'?",
    "temprature=1": "unknown key 'temprature' — did you mean 'temperature'?",
    "judge_api=x": "unknown key 'judge_api' — did you mean 'judge_api_base'?",
    "Limit=3": "unknown key 'Limit' — did you mean 'limit'?",
    "limt": "'limt': expected key=value — did you mean 'limit'?",
    "--limit": "'--limit': expected key=value — did you mean 'limit'?",
    "limit:5": "'limit:5': expected key=value — did you mean 'limit'?",
}
KEYS_OF_PROVIDERS = ("api_key", "openai_api_key", "judge_api_key", "apikey", "token", "hf_token")
KEYS_OF_PROVIDERS += ("judge_token", "key", "client_secret")
UNFIT |= {
    f"{key}=hunter22": f"unknown key '{key}'; set API keys in the environment: "
    "export OPENAI_API_KEY=…, or your provider's key"
    for key in KEYS_OF_PROVIDERS
}
UNFIT |= {
    # A limit of tokens with a typo is no key of a provider.
    "max_token=100": "unknown key 'max_token' — did you mean 'max_tokens'?",
    "judge_max_token=100": "unknown key 'judge_max_token' — did you mean 'judge_max_tokens'?",
    "max_total_token=100": "unknown key 'max_total_token' — did you mean 'max_total_tokens'?",
}


@pytest.mark.parametrize(("word", "told"), UNFIT.items(), ids=UNFIT)
def test_a_value_or_a_key_that_does_not_fit_is_told_in_plain_words(word, told):
    assert refused(*NEEDED, word) == told


def test_a_key_that_resembles_none_names_them_all():
    said = refused(*NEEDED, "xyzzy=1")
    assert "did you mean" not in said
    assert "(known: " in said
    assert all(name in said for name in RunSettings.model_fields)


def test_an_empty_value_is_missing_where_it_is_needed_and_no_default():
    for word in ("model=", "model= "):
        assert refused("task=extraction", word).startswith("model= is missing (")
    said = refused("labels=stress", "judge=", settings=CalibrateSettings)
    assert said.startswith("judge=: empty")


def test_a_share_is_a_number_or_percent_and_in_a_config_file_a_number():
    shares = {"5%": 0.05, "0.2": 0.2, "0%": 0.0, "100%": 1.0, "12.5%": 0.125}
    for typed, share in shares.items():
        assert parse(f"max_failures={typed}").max_failures == pytest.approx(share)
    values = {"task": "extraction", "model": "rules", "max_failures": 0.25, "limit": 3}
    assert parse_settings(values, RunSettings).max_failures == 0.25


def test_a_task_that_stands_twice_is_run_once():
    settings = parse_words(["task=update,extraction,update", "model=rules"], RunSettings)
    assert settings.task == "update,extraction"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_config_file_gives_settings_and_words_come_first(tmp_path, encoding):
    config = tmp_path / "run.toml"
    config.write_text(
        'task = "extraction"\nmodel = "rules"\nlimit = 3\nseed = 7\n', encoding=encoding
    )
    settings = parse_words([f"config={config}", "limit=9"], RunSettings)
    assert (settings.model, settings.limit, settings.seed) == ("rules", 9, 7)


CONFIGS: dict[str, tuple[str | None, type[AlpsError], str]] = {
    "a typo": ('modle = "rules"', DataError, "{}, modle: unknown key — did you mean 'model'?"),
    "a value that does not fit": ("limit = 0", UsageError, "{}, limit=0: must be 1 or more"),
    "no TOML": ("limit: 3", DataError, "{}: not TOML…"),
    "no file": (None, UsageError, "config={}: …"),
    "an empty model": ('model = ""', UsageError, "{}: model= is missing (…"),
    "a key of a provider": (
        'api_key = "hunter22"',
        DataError,
        "{}, api_key: unknown key; set API keys in the environment…",
    ),
    "a number that is too long": ("max_cost = " + "9" * 5_000, AlpsError, "{}…"),
    "a number that is too large": ("max_cost = 1e999", AlpsError, "{}…"),
    "no number": ("max_cost = nan", AlpsError, "{}…"),
}


@pytest.mark.parametrize(("content", "error", "told"), CONFIGS.values(), ids=CONFIGS)
def test_a_config_file_that_does_not_fit_is_named(tmp_path, content, error, told):
    config = tmp_path / "run.toml"
    if content is not None:
        config.write_text(f"{content}\n", encoding="utf-8")
    model = () if "model" in (content or "") else ("model=rules",)
    said = refused("task=extraction", *model, f"config={config}", error=error)
    expected = told.format(config)
    begins, is_cut, _ = expected.partition("…")
    assert said.startswith(begins) if is_cut else said == expected, said
    assert "hunter22" not in said
    assert len(said) < 400


def test_settings_of_a_judge_alone_know_no_model():
    assert parse_words(["judge=lexical"], JudgeSettings).judge == "lexical"
    with pytest.raises(UsageError, match="unknown key 'model'"):
        parse_words(["model=rules"], JudgeSettings)


def test_only_the_sampling_settings_that_were_given_are_sent():
    settings = parse("temperature=0", "max_tokens=9", "judge_temperature=0.5")
    assert settings.sampling() == {"temperature": 0.0, "max_tokens": 9}
    assert settings.judge_sampling() == {"temperature": 0.5}
    assert parse().sampling() == parse().judge_sampling() == {}


def test_what_a_run_measures_changes_with_its_settings_and_not_with_how_it_is_carried_out():
    for word in ("seed=1", "limit=2", "temperature=0.5", "judge_max_tokens=7", "split=dev"):
        assert parse(word).experiment() != parse().experiment(), word
    for word in ("out=x", "concurrency=2", "max_failures=9%", "timeout=9"):
        assert parse(word).experiment() == parse().experiment(), word


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
