"""Defines flags from the fields of dataclasses, and builds the dataclasses from the flags."""

import dataclasses
import inspect
import re
from collections.abc import Collection
from typing import Any

from absl import flags

from bert_tf import command_line

flags.disclaim_key_flags()  # --help then lists the flags of `define` with the program's
_BOOL = flags.DEFINE_bool
_DEFINE = {bool: _BOOL, bool | None: _BOOL, int: flags.DEFINE_integer, float: flags.DEFINE_float}


def define(config_class: Any, names: Collection[str] = (), without: Collection[str] = ()) -> None:
    """Defines one flag per field of a dataclass, with the field's name, default and description.

    Args:
        config_class: A dataclass. The section "Attributes:" of its docstring describes the fields.
            The dataclass may have a class attribute CHOICES, which maps names of fields to allowed
            values. A field without a default gets no flag.
        names: Names of the fields that get a flag. If empty, all fields get one.
        without: Names of fields that get no flag.
    """
    section = inspect.getdoc(config_class) or ""
    choices = getattr(config_class, "CHOICES", {})
    descriptions = dict(re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", section, re.M))
    for field in dataclasses.fields(config_class):
        if field.name in without or field.default is dataclasses.MISSING:
            continue
        if names and field.name not in names:
            continue
        description = " ".join(descriptions[field.name].split())
        if field.name in choices:
            flags.DEFINE_enum(field.name, field.default, choices[field.name], description)
        else:
            kind: Any = field.type
            define_flag = _DEFINE.get(kind, flags.DEFINE_string)
            define_flag(field.name, field.default, description)


def build(config_class: Any) -> Any:
    """Builds a dataclass from the flags that have the same names as its fields."""
    return config_class(**command_line.flag_values(config_class))
