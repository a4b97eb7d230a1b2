"""Submissions that the tests of boards share: packed once a session, and copied to be spoiled."""

import pytest

from alps.leaderboard.packing import pack
from alps.leaderboard.site import build
from tests import site_made
from tests.once import made_once
from tests.submissions import SLUG, WHO, Shelf, pack_rules


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


@pytest.fixture(scope="session")
def thumb(honest):
    """The same, called as most submissions of these tests are; in a folder of its own."""
    return pack([honest.with_name("run")], WHO, out=honest.parent / "thumb" / SLUG).folder


@pytest.fixture(scope="session")
def submissions(tmp_path_factory):
    """Made-up submissions of every kind, one of them hostile."""
    return made_once(tmp_path_factory, "submissions", site_made.make_submissions)


@pytest.fixture(scope="session")
def site(submissions, tmp_path_factory):
    """The site of these."""
    return made_once(tmp_path_factory, "site", lambda folder: build(submissions, folder))
