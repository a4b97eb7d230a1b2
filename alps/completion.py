"""Settings of a command in its help, and answers to Tab: `key=` words, values, run folders.

A word is answered whole (`task=extraction`). Nothing heavy is imported, as Tab waits for it.
"""

import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from alps.errors import UsageError
from alps.extension import extended_commands, load

COMPLETE_VAR = "_ALPS_COMPLETE"
SHELLS = ("bash", "zsh", "fish")

# Values of settings that take others, too; those of settings that take no others are read from the
# settings.
VALUES: Mapping[str, tuple[str, ...]] = {
    "judge": ("lexical", "minilm", "recorded:", "openai/", "anthropic/"),
    "rule": ("publishers", "lexical", "minilm", "openai/", "anthropic/"),
    "data": ("samples", "hub"),
    "labels": ("stress",),
    "calibration": ("off",),
}

_OWN_TASK = "python:MODULE: import the code of a task of your own that the run names"

_FOLDERS = frozenset(("data", "labels", "out", "prompts", "submissions"))
_FILES = frozenset(("config", "file", "verdicts", "calibration", "changed", "base", "people"))
_OF_A_FILE = ("predictions:", "recorded:")
_MODELS = ("openai/", "anthropic/", "predictions:", "program:", "python:")
_RUNS = "runs/"
_IS_KEY = re.compile(r"(?i)(?:.*_)?(?:api_?key|secret)|key|token").fullmatch
_AFTER_A_COMMAND = "settings follow a command: alps run task=extraction model=rules"
_REMOVED = {
    "transport": "audit answers of this very run, by audit_judge=… audit=20% or audit_labels=FOLDER"
}
"""What replaces a command that was there once."""

Answer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


class Key(NamedTuple):
    """A setting: its text, the only values it takes (else none), and whether it is required."""

    text: str
    values: tuple[str, ...] = ()
    needed: bool = False
    default: str = ""


class Words(click.Argument):
    """The words of a command, which knows the settings among them.

    Args:
        names: The name of the argument.
        settings: The class of the settings, `module:Class`, imported when it is asked.
        own_task: Whether `task=python:MODULE` is one of the words.
        others: As `click.Argument` takes them.
    """

    def __init__(
        self, names: Sequence[str], *, settings: str | None, own_task: bool, **others: Any
    ) -> None:
        super().__init__(names, **others)
        self._settings, self._own_task = settings, own_task

    def keys(self) -> dict[str, Key]:
        """Return the settings by name."""
        keys = {}
        if self._settings is not None:
            module, _, name = self._settings.partition(":")
            for key, field in getattr(import_module(module), name).model_fields.items():
                choices, needed = _choices(field.annotation), field.is_required()
                keys[key] = Key(field.description or "", choices, needed, _default(field))
        return keys | ({"task": Key(_OWN_TASK)} if self._own_task else {})


class Explained(click.Command):
    """A command whose help lists its settings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option that is not there says how the setting of its name is written."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            keys = self._settings()
            if not keys:
                raise
            hint = _as_setting(error, words, keys)
            raise click.UsageError(f"No such option '{error.option_name}'; {hint}", ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings before the options, those that must be given first."""
        if keys := self._settings():
            with formatter.section("Settings"):
                formatter.write_dl([(f"{name}=", _text(key)) for name, key in _needed_first(keys)])
        super().format_options(ctx, formatter)

    def _settings(self) -> dict[str, Key]:
        for words in self.params:
            if isinstance(words, Words):
                return words.keys()
        return {}


class ExplainedGroup(click.Group):
    """A group of such commands, and of such groups; those of extensions are among them.

    Args:
        lazy: Where further commands lie, `module:name` by name: imported when they are asked for.
        others: As `click.Group` takes them.
    """

    command_class = Explained
    group_class = type

    def __init__(
        self, *others: Any, lazy: Mapping[str, str] = MappingProxyType({}), **named: Any
    ) -> None:
        super().__init__(*others, **named)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the alphabet."""
        return sorted({*self.commands, *self._lazy, *self._extended(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing where it lies; None where there is none of the name."""
        where = self._lazy.get(cmd_name) or self._extended(ctx).get(cmd_name)
        if cmd_name not in self.commands and where is not None:
            command = load(where)
            if not isinstance(command, click.Command):
                raise UsageError(f"{where}: expected a click command for alps {cmd_name}")
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)

    def _extended(self, ctx: click.Context) -> dict[str, str]:
        """Return where extensions have commands of this group."""
        group = "" if ctx.parent is None else f"{self.name} "
        return {
            words.removeprefix(group): where
            for words, where in extended_commands().items()
            if words.startswith(group) and " " not in words.removeprefix(group)
        }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option that is not there says where settings are written."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            message = f"No such option '{error.option_name}'; {_AFTER_A_COMMAND}"
            raise click.UsageError(message, ctx) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a setting in its place is told where settings are written."""
        if args and "=" in args[0] and not args[0].startswith("-"):
            key = args[0].partition("=")[0]
            raise click.UsageError(f"No such command '{key}=…'; {_AFTER_A_COMMAND}", ctx)
        if ctx.parent is None and args and args[0] in _REMOVED:
            raise click.UsageError(f"'alps {args[0]}' was removed: {_REMOVED[args[0]]}", ctx)
        if args and self.get_command(ctx, args[0]) is None:
            for name in self.list_commands(ctx):  # click proposes close ones of those it holds
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


def words_of(*, runs: bool = False, folders: bool = False) -> Answer:
    """Return what answers Tab on words: run folders, other folders, and the settings."""

    def answer(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        before = context.params.get(parameter.name or "") or ()
        given = dict(word.split("=", 1) for word in before if "=" in word)
        items: list[CompletionItem[str]] = []
        if "=" not in incomplete and (runs or folders):
            words = _run_folders(incomplete) if runs else _paths(incomplete)
            items += [CompletionItem(word) for word in words if word not in before]
        if isinstance(parameter, Words):
            items += _settings(parameter.keys(), incomplete, given)
        return items

    return answer


def _as_setting(error: click.NoSuchOption, words: Sequence[str], keys: Mapping[str, Key]) -> str:
    """Say how what was meant by an option is written: as the setting closest to its name."""
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
    """Return what was given to an option, else `…`: `--task x`, `--task=x`, `-t x` or `-tx`."""
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
        return _with_values(name, begun, keys, given)
    open_keys = {key: keys[key] for key in keys if key.startswith(name) and key not in given}
    # Where a single key fits, its values are answered in its place: the shell then fills in what
    # they share, `key=`, and adds no space to it.
    if len(open_keys) == 1 and name:
        items = _with_values(next(iter(open_keys)), "", keys, given)
        if items:
            return items
    # Fish takes a comma for the end of a word.
    return [
        CompletionItem(f"{key}=", help=setting.text.replace(",", ";") or None)
        for key, setting in _needed_first(open_keys)
    ]


def _with_values(
    name: str, begun: str, keys: Mapping[str, Key], given: Mapping[str, str]
) -> list[CompletionItem[str]]:
    words = _values(name, keys[name], begun, given) if name in keys else []
    return [CompletionItem(f"{name}={word}") for word in words]


def _needed_first(keys: Mapping[str, Key]) -> list[tuple[str, Key]]:
    return sorted(keys.items(), key=lambda item: not item[1].needed)


def _values(name: str, key: Key, begun: str, given: Mapping[str, str]) -> list[str]:
    """Return the values of a setting that begin with `begun`; known names come before paths."""
    kind = begun.partition(":")[0] + ":"
    if name in ("model", "judge") and kind in _OF_A_FILE and begun.startswith(kind):
        return [kind + path for path in _paths(begun.removeprefix(kind), files=True)]
    known = _known(name, key, given)
    # Several tasks are named with commas between.
    listed = begun[: begun.rfind(",") + 1] if name == "task" else ""
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
    paths = _paths(incomplete)
    if incomplete != _RUNS and _RUNS.startswith(incomplete) and _RUNS in paths:
        paths.remove(_RUNS)
        paths = [*_paths(_RUNS), *paths]
    for n, path in enumerate(paths):
        if (Path(path).expanduser() / "manifest.json").is_file():
            paths[n] = path.rstrip("/")
    return paths


def _paths(begun: str, *, files: bool = False) -> list[str]:
    """Return the folders, each with a slash at its end, and maybe the files, by beginning."""
    folder, slash, name = begun.rpartition("/")
    try:
        inside = sorted(os.scandir(Path(folder + slash).expanduser()), key=lambda entry: entry.name)
    except (OSError, RuntimeError):  # no such folder, or no such user
        return []
    paths = []
    for entry in inside:
        hidden = entry.name.startswith(".") and not name
        if entry.name.startswith(name) and not hidden and (files or entry.is_dir()):
            paths.append(f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
    return paths


def _default(field: Any) -> str:
    """Return what is taken where a setting is left out, as it is typed, if that says anything."""
    value = field.default
    if field.is_required() or value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(key: Key) -> str:
    return f"{key.text} [{key.default}]" if key.default else key.text


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
        start = max(incomplete.rfind("="), incomplete.rfind(":")) + 1
        lines = []
        for item in self.get_completions(before, incomplete):
            # Bash would take a space or a quote in the name of a folder for its own.
            lines.append(re.sub(r"([^\w@%+=:,./-])", r"\\\1", item.value[start:]))
        return "\n".join(lines)


add_completion_class(_Bash)
