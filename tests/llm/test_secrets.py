import subprocess
from collections.abc import Callable

import pytest

from alps.llm.secrets import redact


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS",
        "DATABASE_PASSWORD",
        "PROXY_AUTH",
        "GOOGLE_CREDENTIAL_TEXT",
        "lower_case_key",
    ],
)
def test_the_value_of_a_secret_variable_is_masked_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv(name, "ordinary looking words")
    shown = redact("refused: ordinary looking words (ordinary looking words), bye")
    assert "ordinary" not in shown
    assert shown.startswith("refused: ")
    assert shown.endswith(", bye")


def test_the_value_of_another_variable_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALPS_COLOUR", "ordinary looking words")
    assert redact("ordinary looking words") == "ordinary looking words"


def test_a_secret_too_short_to_be_one_does_not_blank_the_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "none")
    assert redact("none of it") == "none of it"


def test_a_secret_that_begins_like_another_one_is_masked_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
):
    for name, value in (
        ("A_KEY", "shared-start"),
        ("B_KEY", "shared-start-and-the-rest"),
        ("C_KEY", "shared-start-and"),
    ):
        monkeypatch.setenv(name, value)
    assert "rest" not in redact("the key shared-start-and-the-rest was refused")


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param("sk-abcdefgh12345678", id="OpenAI"),
        pytest.param("sk-proj-abc_DEF-12345678", id="OpenAI, of a project"),
        pytest.param("sk-ant-api03-abcdefgh_12345678", id="Anthropic"),
        pytest.param("sk-or-v1-abcdef0123456789", id="OpenRouter"),
        pytest.param("hf_AbCdEfGhIjKlMnOp", id="Hugging Face"),
        pytest.param("gsk_abcdefgh12345678", id="Groq"),
        pytest.param("xai-abcdefgh12345678", id="xAI"),
        pytest.param("AIzaSyA1234567890abcdefghijklmnopqrstuvw", id="Google"),
    ],
)
@pytest.mark.parametrize(
    "place", ["the key {} was refused", "key={}&x=1", '{{"key": "{}"}}', "{}", "({}).", "key:{}\n"]
)
def test_a_word_shaped_like_a_key_is_masked(secret: str, place: str):
    shown = redact(place.format(secret))
    assert secret not in shown
    assert secret[-8:] not in shown


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_what_follows_bearer_is_masked(scheme: str):
    assert "opaque" not in redact(f"Authorization: {scheme} opaque.token+of/any=kind-1")


@pytest.mark.parametrize(
    "text",
    [
        "A risk-averse person with task-oriented habits",
        "desk_organizers and disk-encryption",
        "bearer of bad news",
        "the model openai/gpt-4.1-mini at http://127.0.0.1:8000/v1",
        "住在成都 🌶",
        "",
    ],
)
def test_ordinary_text_is_left_as_it_is(text: str):
    assert redact(text) == text


def test_the_command_does_not_show_a_password_in_an_endpoint_that_is_no_url(
    alps: Callable[..., subprocess.CompletedProcess[str]],
):
    done = alps(
        "run",
        "task=extraction",
        "model=openai/tiny",
        "data=samples",
        "api_base=http://me:hunter2@host:port/v1",
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
