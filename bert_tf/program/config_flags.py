"""Defines flags from the fields of dataclasses, and builds dataclasses from flags."""

import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any

from absl import flags

flags.disclaim_key_flags()  # --help then lists the flags of `define` with the program's
_DEFINE = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
}
_LISTS = (collections.abc.Sequence, tuple, list)


def define(
    config_class: Any,
    names: Collection[str] = (),
    without: Collection[str] = (),
    flag_names: Mapping[str, str] = {},
    defaults: Mapping[str, Any] = {},
    texts: Mapping[str, str] = {},
) -> None:
    """Defines a flag for each field of a dataclass, with its default and description.

    The section "Attributes:" of the docstrings of the class and its base classes
    describes the fields. A class attribute CHOICES may map names of fields to allowed
    values. A field without a default gets no flag. In all arguments, a field is given
    by its name.

    Args:
        names: The fields that get a flag. If empty, all fields get one.
        flag_names: For fields whose flag has another name, that name.
    """
    described = {**descriptions(config_class, flag_names), **texts}
    choices = getattr(config_class, "CHOICES", {})
    for field in dataclasses.fields(config_class):
        if field.name in without or field.default is dataclasses.MISSING:
            continue
        if names and field.name not in names:
            continue
        flag = flag_names.get(field.name, field.name)
        default = defaults.get(field.name, field.default)
        kind = _kind(field.type)
        if field.name in choices:
            flags.DEFINE_enum(flag, default, choices[field.name], described[field.name])
        elif typing.get_origin(kind) in _LISTS:
            flags.DEFINE_list(flag, default and list(default), described[field.name])
        else:
            define_flag: Any = _DEFINE.get(kind, flags.DEFINE_string)
            define_flag(flag, default, described[field.name])


def _kind(annotation: Any) -> Any:
    """Returns the type of a field, without None."""
    if isinstance(annotation, types.UnionType):
        return next(
            kind for kind in typing.get_args(annotation) if kind is not types.NoneType
        )
    return annotation


def descriptions(
    config_class: Any, flag_names: Mapping[str, str] = {}
) -> dict[str, str]:
    """Returns the description of each field for a flag, with `name` as --name."""
    # Those of a base class come first.
    classes = filter(dataclasses.is_dataclass, reversed(config_class.__mro__))
    section = "\n".join(inspect.getdoc(each) or "" for each in classes)
    entries = re.findall(r"^    (\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", section, re.M)
    fields = {field.name for field in dataclasses.fields(config_class)}

    def name(match: re.Match[str]) -> str:
        flag = flag_names.get(match[1], match[1])
        return f"--{flag}" if match[1] in fields or flag in flags.FLAGS else match[1]

    texts = {
        names: re.sub(r"`([\w.]+)`", name, " ".join(text.split()))
        for names, text in entries
    }
    return {each: text for names, text in texts.items() for each in names.split(", ")}


def build(config_class: Any, **values: Any) -> Any:
    """Builds a dataclass from `values` and, for the other fields, the flags of the same names."""
    names = (field.name for field in dataclasses.fields(config_class))
    from_flags = {
        name: flags.FLAGS[name].value for name in names if name in flags.FLAGS
    }
    return config_class(**{**from_flags, **values})
