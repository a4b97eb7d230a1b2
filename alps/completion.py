"""What a command takes, in its help and for Tab: `key=` words, their values, and run folders.

Reads nothing heavy.

A word is answered whole (`task=extraction`). Where a single key fits, its values are answered in
its place: the shell then fills in what they share, `key=`, and adds no space to it.
"""

import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

COMPLETE_VAR = "_ALPS_COMPLETE"
SHELLS = ("bash", "zsh", "fish")

VALUES: Mapping[str, tuple[str, ...]] = {
    "judge": ("lexical", "recorded:", "openai/", "anthropic/"),
    "data": ("samples", "hub"),
    "labels": ("stress",),
    "calibration": ("off",),
}
"""Values of settings that take others, too; those of settings that take no others are read from the
settings.
"""

OWN_TASK = {"task": "python:MODULE: import the code of a task of your own that the run names"}
REPORT = {"out": "the page that is written", **OWN_TASK}
COMPARE = {"seed": "of the resampling", "format": "table or json"}
"""The settings of `alps compare`, whose module computes; `alps report` has but one."""

_FOLDERS = frozenset(("data", "labels", "out", "prompts", "submissions"))
_FILES = frozenset(("config", "file", "verdicts", "calibration", "changed", "base"))
_OF_A_FILE = ("predictions:", "recorded:")
_MODELS = ("openai/", "anthropic/", "predictions:", "program:", "python:")
_RUNS = "runs/"
_IS_KEY = re.compile(r"(?i)(?:.*_)?(?:api_?key|secret)|key|token").fullmatch
_AFTER_A_COMMAND = "settings follow a command: alps run task=extraction model=rules"

Command = TypeVar("Command", bound=Callable[..., Any])
Answer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


class Key(NamedTuple):
    """A setting: its text, the only values it takes (else none), and whether it is required."""

    told: str
    values: tuple[str, ...] = ()
    needed: bool = False
    default: str = ""


class Words(click.Argument):
    """The words of a command, which knows the settings among them."""

    def __init__(
        self, names: Sequence[str], *, settings: str | Mapping[str, str] | None, **others: Any
    ) -> None:
        super().__init__(names, **others)
        self.settings = settings


class Explained(click.Command):
    """A command whose help lists its settings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option that is not there says how the setting of its name is written."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            settings = next(
                (one.settings for one in self.params if isinstance(one, Words) and one.settings),
                None,
            )
            if settings is None:
                raise
            hint = _as_setting(error, words, _keys(settings))
            raise click.UsageError(f"No such option '{error.option_name}'; {hint}", ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings before the options.

        Those that must be given first, defaults in brackets.
        """
        for words in self.params:
            if isinstance(words, Words) and words.settings is not None:
                order = sorted(_keys(words.settings).items(), key=lambda item: not item[1].needed)
                with formatter.section("Settings"):
                    formatter.write_dl([(f"{name}=", _told(key)) for name, key in order])
        super().format_options(ctx, formatter)


class ExplainedGroup(click.Group):
    """A group of such commands, and of such groups."""

    command_class = Explained
    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option that is not there says where settings are written."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            raise click.UsageError(
                f"No such option '{error.option_name}'; {_AFTER_A_COMMAND}", ctx
            ) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a setting in its place is told where settings are written."""
        if args and "=" in args[0] and not args[0].startswith("-"):
            raise click.UsageError(
                f"No such command '{args[0].partition('=')[0]}=…'; {_AFTER_A_COMMAND}", ctx
            )
        return super().resolve_command(ctx, args)


def takes(
    metavar: str,
    settings: str | Mapping[str, str] | None = None,
    *,
    runs: bool = False,
    folders: bool = False,
) -> Callable[[Command], Command]:
    """Give a command words as its argument, shown as `metavar`, with what Tab answers to them.

    The argument is called `settings`; where runs or folders stand among the words, `words`, and one
    must be given.
    """
    mixed = runs or folders
    return click.argument(
        "words" if mixed else "settings",
        cls=Words,
        settings=settings,
        nargs=-1,
        required=mixed,
        metavar=metavar,
        shell_complete=words_of(settings, runs=runs, folders=folders),
    )


def words_of(
    settings: str | Mapping[str, str] | None = None, *, runs: bool = False, folders: bool = False
) -> Answer:
    """Return what answers Tab on the words of a command.

    Args:
        settings: The settings it takes: `module:Class`, imported when it is asked, or keys with
            what they say.
        runs: Whether run folders are words.
        folders: Whether folders are words.
    """

    def answer(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        before = context.params.get(parameter.name or "") or ()
        given = dict(word.split("=", 1) for word in before if "=" in word)
        found: list[CompletionItem[str]] = []
        if "=" not in incomplete and (runs or folders):
            words = _run_folders(incomplete) if runs else _paths(incomplete)
            found += [CompletionItem(word) for word in words if word not in before]
        if settings is not None:
            found += _settings(_keys(settings), incomplete, given)
        return found

    return answer


def _as_setting(error: click.NoSuchOption, words: Sequence[str], keys: Mapping[str, Key]) -> str:
    """Say how what was meant by an option is written.

    As the setting with its name, or the closest to it.
    """
    name = error.option_name.lstrip("-").replace("-", "_")
    if _IS_KEY(name):
        return "keys come from the environment: export OPENAI_API_KEY=…, or that of your provider"
    begun = [key for key in keys if key.startswith(name)]
    needed = [key for key in begun if keys[key].needed]
    close = get_close_matches(name, keys, n=1, cutoff=0.6) if len(name) > 1 else []
    key = name if name in keys else next(iter([*needed, *begun, *close]), None)
    if key is None:
        return f"settings are written key=value, such as {next(iter(needed or keys))}=…"
    return f"write {key}={_value_of(error.option_name, words)}"


def _value_of(option: str, words: Sequence[str]) -> str:
    """Return the value that was given to an option: `--task x`, `--task=x`, `-t x` or `-tx`.

    `…` where none was.
    """
    from alps.llm.secrets import redact

    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            value = following
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
        elif len(option) == 2 and word.startswith(option):
            value = word[2:]
        else:
            continue
        return redact(value) if value and not value.startswith("-") else "…"
    return "…"


def script(command: click.Command, shell: str) -> str:
    """Return the script that a shell in `SHELLS` reads to complete the words of `command`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise ValueError(f"no completion for {shell}")
    completer = kind(command, {}, "alps", COMPLETE_VAR)
    return completer.source_template % completer.source_vars()


def _settings(
    keys: Mapping[str, Key], incomplete: str, given: Mapping[str, str]
) -> list[CompletionItem[str]]:
    """Answer `key` or `key=value`."""
    name, equals, begun = incomplete.partition("=")
    if equals:
        words = _values(name, keys[name], begun, given) if name in keys else []
        return [CompletionItem(f"{name}={word}") for word in words]
    open_ones = {
        key: found for key, found in keys.items() if key.startswith(name) and key not in given
    }
    if len(open_ones) == 1 and name:
        ((key, found),) = open_ones.items()
        if words := _values(key, found, "", given):
            return [CompletionItem(f"{key}={word}") for word in words]
    order = sorted(open_ones.items(), key=lambda item: not item[1].needed)
    return [
        CompletionItem(f"{key}=", help=found.told.replace(",", ";") or None) for key, found in order
    ]


def _values(name: str, key: Key, begun: str, given: Mapping[str, str]) -> list[str]:
    """Return the values of a setting that begin with `begun`; known names come before paths."""
    if kind := next(
        (kind for kind in _OF_A_FILE if name in ("model", "judge") and begun.startswith(kind)), None
    ):
        return [kind + path for path in _paths(begun.removeprefix(kind), files=True)]
    known = _known(name, key, given)
    listed = (
        begun[: begun.rfind(",") + 1] if name == "task" else ""
    )  # several tasks, with commas between
    others = [word for word in known if not listed or word not in (*listed.split(","), "all")]
    values = [listed + word for word in others if (listed + word).startswith(begun)]
    if name in _FOLDERS | _FILES:
        values += _paths(begun, files=name in _FILES)
    return values


def _known(name: str, key: Key, given: Mapping[str, str]) -> Sequence[str]:
    """Return the values of a setting that are known by name; only tasks know their systems."""
    if name not in ("task", "model"):
        return key.values or VALUES.get(name, ())
    # Imported here: a Tab on any other word must not wait for the tasks.
    from alps.tasks.registry import ALL, systems_by_task

    systems = systems_by_task()
    if name == "task":
        return (*systems, ALL)
    return (*_systems(given.get("task", ALL), systems), *_MODELS)


def _systems(task: str, systems: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the systems that answer every task that is named; of no or all tasks, any system."""
    names: dict[str, None] = {}
    for of_task in systems.values():
        names |= dict.fromkeys(of_task)
    if task == "all":
        return list(names)
    named = [systems[name] for name in task.split(",") if name in systems]
    return [name for name in names if named and all(name in of_task for of_task in named)]


def _run_folders(incomplete: str) -> list[str]:
    """Return the run folders that begin so, and the folders on the way to others."""
    found = _paths(incomplete)
    if incomplete != _RUNS and _RUNS.startswith(incomplete) and _RUNS in found:
        found = [*_paths(_RUNS), *(path for path in found if path != _RUNS)]
    return [
        path.rstrip("/") if (Path(path).expanduser() / "manifest.json").is_file() else path
        for path in found
    ]


def _paths(begun: str, *, files: bool = False) -> list[str]:
    """Return the folders, each with a slash at its end, and maybe the files, by beginning."""
    folder, slash, name = begun.rpartition("/")
    try:
        inside = sorted(os.scandir(Path(folder + slash).expanduser()), key=lambda entry: entry.name)
    except (OSError, RuntimeError):  # no such folder, or no such user
        return []
    shown = [
        entry
        for entry in inside
        if entry.name.startswith(name) and (name or not entry.name.startswith("."))
    ]
    return [
        f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in shown
        if files or entry.is_dir()
    ]


def _keys(settings: str | Mapping[str, str]) -> dict[str, Key]:
    if not isinstance(settings, str):
        return {
            name: Key(told, ("table", "json") if name == "format" else ())
            for name, told in settings.items()
        }
    module, _, name = settings.partition(":")
    fields: Mapping[str, Any] = getattr(import_module(module), name).model_fields
    return {
        name: Key(
            field.description or "",
            _choices(field.annotation),
            field.is_required(),
            _default(field),
        )
        for name, field in fields.items()
    }


def _default(field: Any) -> str:
    """Return what is taken where a setting is left out, as it is typed.

    Nothing where that says nothing.
    """
    value = field.default
    if field.is_required() or value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _told(key: Key) -> str:
    return f"{key.told} [{key.default}]" if key.default else key.told


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the only values that an annotation allows, as they are typed."""
    if annotation is bool:
        return ("yes", "no")
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    if get_origin(annotation) in (Union, types.UnionType):
        return next(filter(None, map(_choices, get_args(annotation))), ())
    return ()


class _Bash(BashComplete):
    """Completion in bash, which takes `=` and `:` for the ends of words.

    It is told only what comes after them.
    """

    name = "bash"
    source_template = """\
%(complete_func)s() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        [[ -n $line ]] && COMPREPLY+=("$line")
    done < <(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1")
    if [[ ${COMPREPLY[0]} == *[=:/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null ||
    complete -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words: Sequence[str] = split_arg_string(line)
        if len(words) < 2 or (line[-1:].isspace() and not line.endswith("\\ ")):
            return list(words[1:]), ""
        return list(words[1:-1]), words[-1]

    def complete(self) -> str:
        before, incomplete = self.get_completion_args()
        said = max(incomplete.rfind("="), incomplete.rfind(":")) + 1
        values = (item.value[said:] for item in self.get_completions(before, incomplete))
        return "\n".join(re.sub(r"([^\w@%+=:,./-])", r"\\\1", value) for value in values)


add_completion_class(_Bash)
