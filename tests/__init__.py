"""Tests; `tests/loopback.py` is the server that stands for a provider."""
