"""What help shows: everyday commands and settings first, the others in groups."""

import re

import pytest
from click import Context, Group
from click.testing import CliRunner

from alps.cli import cli
from alps.explained import Words
from alps.extension import brought
from alps.settings import RunSettings
from tests.tracks import alps_here

RUN = CliRunner().invoke(cli, ["run", "--help"]).output
LINE = re.compile(r"^  ([a-zA-Z_.]+)= ", re.MULTILINE)


def groups():
    words = next(one for one in cli.get_command(Context(cli), "run").params if type(one) is Words)
    return words.groups()


def test_everyday_settings_are_explained_and_all_others_are_named():
    explained = LINE.findall(RUN)
    assert explained[:3] == ["task", "model", "memory"]
    assert len(explained) <= 25
    named = set(RUN.partition("More (")[2].split())
    for name in RunSettings.model_fields:
        table = RunSettings.model_fields[name].description.partition(".NAME=VALUE")
        assert name in {*explained, *named} or f"{table[0]}.NAME" in named


def test_every_setting_of_ours_is_in_one_group_besides_the_everyday_ones():
    found = groups()
    everyday = found.pop("")
    grouped = [name for names in found.values() for name in names]
    assert sorted(grouped) == sorted(RunSettings.model_fields)
    assert set(everyday) < set(grouped)
    assert "others" not in found


def test_help_on_a_group_or_a_setting_shows_no_other():
    assert LINE.findall(alps_here("run", "--help", "judge").out)[0] == "judge"
    assert "temperature" not in alps_here("run", "--help", "folder").out
    assert LINE.findall(alps_here("run", "--help", "limit").out) == ["limit"]
    line = alps_here("run", "--help", "jugde").one_line
    assert "did you mean 'judge'?" in line
    assert "groups: all task model judge" in line


def helps(command, words=()):
    """Yield the words of every command, with the help of each."""
    yield words, CliRunner().invoke(cli, [*words, "--help"]).output
    within = Context(command)
    for name in command.list_commands(within) if isinstance(command, Group) else ():
        yield from helps(command.get_command(within, name), (*words, name))


def test_the_help_of_every_command_fits_80_columns():
    shown = dict(helps(cli))
    assert ("annotate", "export") in shown
    assert [line for text in shown.values() for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("old", sorted(brought("moved")))
def test_an_old_command_works_and_says_what_it_is_now(old):
    new = brought("moved")[old]
    shown = alps_here(*old.split(), "--help")
    assert shown.code == 0
    assert shown.err == f"alps {old} is now alps {new}\n"
    assert shown.out == alps_here(*new.split(), "--help").out


def test_a_word_alone_is_the_task():
    assert "unknown task — did you mean 'extraction'?" in (
        alps_here("run", "extractoin", "model=rules", "dry_run=yes").one_line
    )
    assert "'limit': expected key=value" in alps_here("run", "limit", "model=rules").one_line
    second = alps_here("run", "extraction", "rules")
    assert "'rules': expected key=value, such as model=rules" in second.one_line
    told = alps_here("run", "extraction", "model=rules", "dry_run=yes", "limit=2")
    assert (told.code, told.out) == (
        0,
        alps_here("run", "task=extraction", "model=rules", "dry_run=yes", "limit=2").out,
    )
