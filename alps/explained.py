"""Commands whose help explains their settings, in groups, and groups of such commands."""

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from alps.errors import UsageError, closest
from alps.extension import EVERYDAY, UNLISTED, brought, extensions, headings, load

_OWN_TASK = "python:MODULE: allow alps to import the code of the run's own task"
_AFTER_A_COMMAND = "settings follow a command: alps run task=extraction model=rules"
_HEADINGS = (EVERYDAY, "Judge", "Memory", "Leaderboard", "Scale", "Data")
_ALL, _TOPIC = "all", "alps.help_topic"
_NAMED_VALUES = ".NAME=VALUE: "
_WIDTH = 80


class SettingKey(NamedTuple):
    """A setting: its text, the only values it takes (else none), and whether it is required."""

    text: str
    values: tuple[str, ...] = ()
    needed: bool = False
    default: str = ""

    @property
    def explained(self) -> str:
        """What help says of it."""
        text = self.text.partition(_NAMED_VALUES)[2] or self.text
        return f"{text} [{self.default}]" if self.default else text


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

    def keys(self) -> dict[str, SettingKey]:
        """Return the settings by name."""
        keys = {}
        for name, field in self._fields().items():
            choices, needed = _choices(field.annotation), field.is_required()
            keys[name] = SettingKey(field.description or "", choices, needed, _default(field))
        return keys | ({"task": SettingKey(_OWN_TASK)} if self._own_task else {})

    def groups(self) -> dict[str, list[str]]:
        """Return the names of the settings by group, `EVERYDAY` first; empty where few have any."""
        if self._settings is None:
            return {}
        fields, groups = self._fields(), dict[str, list[str]]()
        kinds = [vars(kind).get("GROUPS", {}) for kind in load(self._settings).__mro__]
        # The keys of the spine come first, and extend what extensions call everyday.
        for own in reversed(kinds):
            for group, names in own.items():
                known = groups.setdefault(group, [])
                listed = [name for name in names.split() if name in fields]
                groups[group] = [*listed, *known] if group == EVERYDAY else [*known, *listed]
        ungrouped = fields.keys() - {name for names in groups.values() for name in names}
        if groups and ungrouped:
            groups["others"] = sorted(ungrouped)
        for names in groups.values():
            names.sort(key=lambda name: not fields[name].is_required())
        return {group: names for group, names in groups.items() if names}

    def _fields(self) -> Mapping[str, Any]:
        if self._settings is None:
            return {}
        module, _, name = self._settings.partition(":")
        fields: Mapping[str, Any] = getattr(import_module(module), name).model_fields
        return fields


class Explained(click.Command):
    """A command whose help lists its settings; `subcommands` are listed, too."""

    subcommands: "ExplainedGroup | None" = None

    def __init__(self, *others: Any, **named: Any) -> None:
        super().__init__(*others, **{"options_metavar": "", **named})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; for an unknown option, say how the setting of that name is written."""
        words = list(args)
        for flag in ctx.help_option_names:
            if flag in args:
                topic = next(iter(args[args.index(flag) + 1 :]), "")
                ctx.meta[_TOPIC] = "" if "=" in topic or topic.startswith("-") else topic
                args = [flag]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            settings = self._words()
            keys = settings.keys() if settings is not None else {}
            if not keys:
                raise
            hint = _as_setting(error, words, keys)
            raise click.UsageError(f"No such option '{error.option_name}'; {hint}", ctx) from error

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help, or what `--help TOPIC` asks of it: a group of settings, or one."""
        topic, words = ctx.meta.get(_TOPIC, ""), self._words()
        if not topic or topic == _ALL or words is None:
            super().format_help(ctx, formatter)
            return
        keys, groups = words.keys(), words.groups()
        names = groups.get(topic, [topic])
        if topic not in keys.keys() | groups.keys():
            known = [_ALL, *filter(None, groups)]
            hint = closest(topic, [*known, *keys])
            what = f"--help {topic}: no setting or group{hint} (groups: {' '.join(known)})"
            raise UsageError(what)
        with formatter.section(f"{ctx.command_path}, settings of {topic}"):
            _explain(formatter, {name: keys[name] for name in names})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings before the options: the everyday ones, and the others in groups."""
        words = self._words()
        if words is not None and words.keys():
            keys, groups = words.keys(), words.groups()
            everyday = groups.pop(EVERYDAY, [])
            if not everyday:
                _section(formatter, "Settings", dict(needed_first(keys)))
            elif ctx.meta.get(_TOPIC) == _ALL:
                for group, names in groups.items():
                    _section(formatter, group.capitalize(), {name: keys[name] for name in names})
            else:
                _section(formatter, "Settings", {name: keys[name] for name in everyday})
                _list_others(formatter, keys, groups, everyday)
        if self.subcommands is not None:
            self.subcommands.format_commands(ctx, formatter)

    def _words(self) -> Words | None:
        return next((one for one in self.params if isinstance(one, Words)), None)


class ExplainedGroup(click.Group):
    """A group of such commands, and of such groups; those of extensions are among them.

    Args:
        lazy: Where further commands lie, `module:name` by name: imported when they are asked for.
    """

    command_class = Explained
    group_class = type

    def __init__(
        self,
        *others: Any,
        lazy: Mapping[str, str] = MappingProxyType({}),
        **named: Any,
    ) -> None:
        super().__init__(*others, **{"options_metavar": "", **named})
        self._lazy = lazy

    @property
    def _prefix(self) -> str:
        return "" if self._lazy else f"{self.name} "

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which they are declared."""
        return list(dict.fromkeys([*self._lazy, *self.commands, *self._extended()]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing where it lies; None where there is none of the name."""
        where = self._lazy.get(cmd_name) or self._extended().get(cmd_name)
        if cmd_name not in self.commands and where is not None:
            command = load(where)
            if not isinstance(command, click.Command):
                raise UsageError(f"{where}: expected a click command for alps {cmd_name}")
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)

    def _extended(self) -> dict[str, str]:
        """Return where extensions have commands of this group."""
        return {
            words.removeprefix(self._prefix): where
            for words, where in brought("commands").items()
            if words.startswith(self._prefix) and " " not in words.removeprefix(self._prefix)
        }

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, and no options: every command has `--help`."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with a line each, under their headings."""
        rows: dict[str, list[tuple[str, str]]] = {}
        names = self.list_commands(ctx)
        above = headings() if self._lazy else {}
        for name, command in self._loaded(ctx, names):
            line = name, self._line_of(ctx, command)
            rows.setdefault(above.get(name, EVERYDAY), []).append(line)
        rows.pop(UNLISTED, None)
        for heading in dict.fromkeys([*_HEADINGS, *rows]):
            if heading in rows:
                with formatter.section(heading or "Commands"):
                    formatter.write_dl(
                        [(name.ljust(max(map(len, names))), line) for name, line in rows[heading]]
                    )

    def _loaded(
        self, ctx: click.Context, names: Iterable[str]
    ) -> Iterator[tuple[str, click.Command]]:
        """Yield the commands; one of an extension that can't be loaded is told of and left out."""
        for name in names:
            try:
                command = self.get_command(ctx, name)
            except UsageError as error:
                click.echo(f"alps: {error}", err=True)
                continue
            if command is not None:
                yield name, command

    def _line_of(self, ctx: click.Context, command: click.Command) -> str:
        line = command.get_short_help_str(_WIDTH)
        if isinstance(command, ExplainedGroup):
            line = f"{line.removesuffix('.')} ({', '.join(command.list_commands(ctx))})"
        return line.removesuffix(".")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; for an unknown option, say where settings are written."""
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
        """Find the command; for a setting in its place, say where settings are written."""
        if args and "=" in args[0] and not args[0].startswith("-"):
            key = args[0].partition("=")[0]
            raise click.UsageError(f"No such command '{key}=…'; {_AFTER_A_COMMAND}", ctx)
        if self._lazy:
            args = _in_current_words(ctx, args)
        if args and self.get_command(ctx, args[0]) is None:
            # Click proposes close ones of those that it holds.
            list(self._loaded(ctx, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


class WithCommands(ExplainedGroup):
    """A command that has others below it: words that name none of them are its own.

    Args:
        command: The command.
    """

    def __init__(self, command: Explained) -> None:
        super().__init__(command.name, help=command.help)
        self._command = command
        command.subcommands = self

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the group where its words name a command of it, else its own."""
        below = {*self.commands, *self._extended()}
        # Without words Tab offers both.
        if (args[:1] and args[0] in below) or (extra.get("resilient_parsing") and not args):
            return super().make_context(info_name, args, parent, **extra)
        return self._command.make_context(info_name, args, parent, **extra)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Answer Tab with the commands, and what the first word of its own may be."""
        items = super().shell_complete(ctx, incomplete)
        first = next(one for one in self._command.params if isinstance(one, click.Argument))
        return [*items, *first.shell_complete(ctx, incomplete)]


def tab_answers() -> list[Callable[..., list[CompletionItem[str]]]]:
    """Return what answers Tab; importing it may teach click a shell."""
    return [load(one.on_tab) for one in extensions() if one.on_tab]


def on_tab(*, runs: bool = False, folders: bool = False) -> Callable[..., list[Any]]:
    """Return what click calls for Tab on words, among which `runs` or other `folders` may be."""

    def answer(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        items = list[Any]()
        for answers in tab_answers():
            items += answers(context, parameter, incomplete, runs=runs, folders=folders)
        return items

    return answer


def needed_first(keys: Mapping[str, SettingKey]) -> list[tuple[str, SettingKey]]:
    """Return settings in their order, those that must be given first."""
    return sorted(keys.items(), key=lambda item: not item[1].needed)


def typed_as(name: str, key: SettingKey) -> str:
    """Return how a setting is typed: `limit`, or `request.NAME` for a table."""
    before, is_table, _ = key.text.partition(_NAMED_VALUES)
    return f"{before}.NAME" if is_table else name


def _in_current_words(ctx: click.Context, args: list[str]) -> list[str]:
    """Replace the old words of a command by its own, and say so in one line."""
    for old, what in brought("removed").items():
        words = old.split()
        if args[: len(words)] == words:
            raise click.UsageError(f"'alps {old}' was removed: {what}", ctx)
    for old, new in brought("moved").items():
        words = old.split()
        if args[: len(words)] == words:
            if not ctx.resilient_parsing:
                click.echo(f"alps {old} is now alps {new}", err=True)
            return [*new.split(), *args[len(words) :]]
    return args


def _explain(formatter: click.HelpFormatter, keys: Mapping[str, SettingKey]) -> None:
    formatter.write_dl([(f"{typed_as(name, key)}=", key.explained) for name, key in keys.items()])


def _section(formatter: click.HelpFormatter, title: str, keys: Mapping[str, SettingKey]) -> None:
    with formatter.section(title):
        _explain(formatter, keys)


def _list_others(
    formatter: click.HelpFormatter,
    keys: Mapping[str, SettingKey],
    groups: Mapping[str, Sequence[str]],
    everyday: Sequence[str],
) -> None:
    """List the names of the settings that are not everyday ones, a paragraph per group."""
    first = next(iter(groups))
    rows = []
    for group, names in groups.items():
        if others := [typed_as(name, keys[name]) for name in names if name not in everyday]:
            rows.append((group, " ".join(others)))
    with formatter.section(f"More (--help {first} explains one group, --help all explains all)"):
        formatter.write_dl(rows)


def _as_setting(
    error: click.NoSuchOption, words: Sequence[str], keys: Mapping[str, SettingKey]
) -> str:
    """Say how what was meant by an option is written: as the setting closest to its name."""
    from alps.settings import is_secret

    name = error.option_name.lstrip("-").replace("-", "_")
    if is_secret(name):
        return "set API keys in the environment: export OPENAI_API_KEY=…, or your provider's key"
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


def _default(field: Any) -> str:
    """Return what is taken where a setting is left out, as it is typed, if that says anything."""
    value = field.default
    if field.is_required() or value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the only values that an annotation allows, as they are typed."""
    if annotation is bool:
        return ("yes", "no")
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    if get_origin(annotation) in (Union, types.UnionType):
        return next(filter(None, map(_choices, get_args(annotation))), ())
    return ()
