"""What tests of the client share."""

import pytest


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of two providers that look like words of a text."""
    monkeypatch.setenv("OPENAI_API_KEY", "ordinary-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "ordinary-anthropic")
