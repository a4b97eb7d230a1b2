"""Submissions that the tests of boards share: packed once a session, and copied to be spoiled."""

import pytest

from tests.submissions import Shelf, pack_rules


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A packed submission of three small tracks, and its data."""
    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def folder(shelf, tmp_path):
    """A copy of it that may be spoiled."""
    return shelf.copy(tmp_path)


@pytest.fixture(scope="session")
def honest(tmp_path_factory):
    """A submission on the samples, judged by the embedded judge."""
    return pack_rules(tmp_path_factory.mktemp("honest"), "honest")
