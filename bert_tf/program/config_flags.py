"""Defines flags from the options of configs, and builds configs from flags."""

import dataclasses
import re
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from absl import flags

flags.disclaim_key_flags()  # --help then lists the flags of `define` with the program's
_DEFINE = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
}

# The flags whose values are paths, or comma lists of paths.
PATHS = {"log_dir"}  # of absl
# The names of the flags for options that have other names in messages.
FLAG_NAMES: dict[str, str] = {}


def define(
    config_class: Any,
    names: Collection[str] = (),
    without: Collection[str] = (),
    defaults: Mapping[str, Any] = {},
    texts: Mapping[str, str] = {},
    condition: str = "",
) -> None:
    """Defines a flag for each option of a config; see `bert_tf.config_fields`.

    In all arguments, an option is given by the name of its field. An option without a
    default gets no flag.

    Args:
        names: The options that get a flag. If empty, all options get one.
        texts: Descriptions that replace the descriptions in the config.
        condition: The text to put before each description.
    """
    names_of_flags = _flag_names(config_class)
    for field in dataclasses.fields(config_class):
        flag = names_of_flags[field.name]
        # A field name that is a part of the name of the flag is left out, because it
        # may also be a word or a column in messages.
        if field.name not in flag:
            FLAG_NAMES[field.name] = flag
        default = defaults.get(field.name, field.default)
        if (
            default is dataclasses.MISSING
            or field.name in without
            or (names and field.name not in names)
        ):
            continue

        # absl has a function for each kind of flag.
        text = condition + texts.get(field.name, _text(field, names_of_flags))
        kind: Any = field.type
        if isinstance(kind, types.UnionType):
            kind = typing.get_args(kind)[0]  # str of `str | os.PathLike | None`
        if choices := field.metadata["choices"]:
            flags.DEFINE_enum(flag, default, choices, text)
        elif typing.get_origin(kind) in (Sequence, tuple):
            flags.DEFINE_list(flag, default and list(default), text)
        else:
            define_flag: Any = _DEFINE.get(kind, flags.DEFINE_string)
            define_flag(flag, default, text)
        if field.metadata["is_path"]:
            PATHS.add(flag)


def define_path(
    name: str,
    text: str,
    default: str | None = None,
    required: bool = False,
    define_flag: Any = flags.DEFINE_string,
) -> None:
    """Defines a flag whose value is a path, or several paths.

    Args:
        define_flag: The function of absl. `DEFINE_list` is for a comma list of paths,
            and `DEFINE_multi_string` for a flag that can be given several times.
    """
    define_flag(name, default, text, required=required)
    PATHS.add(name)


def _flag_names(config_class: Any) -> dict[str, str]:
    """Returns the name of the flag of each option."""
    return {
        field.name: field.metadata.get("flag", field.name)
        for field in dataclasses.fields(config_class)
    }


def _text(field: Any, names: Mapping[str, str]) -> str:
    """Returns the description of an option, with --name for each `name` in it.

    `names` has the name of the flag of each option of the config.
    """

    def name(match: re.Match[str]) -> str:
        flag = names.get(match[1], match[1])
        return f"--{flag}" if match[1] in names or flag in flags.FLAGS else flag

    return re.sub(r"`([\w.]+)`", name, field.metadata["text"])


def build(config_class: Any, **values: Any) -> Any:
    """Builds a config from `values` and, for other options, from the flags."""
    for name, flag in _flag_names(config_class).items():
        if flag in flags.FLAGS:
            values.setdefault(name, flags.FLAGS[flag].value)
    return config_class(**values)
