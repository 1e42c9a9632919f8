"""Defines flags from the fields of dataclasses, and builds the dataclasses from the flags.

Imports absl.
"""

import dataclasses
import inspect
import re
from collections.abc import Collection
from typing import Any

from absl import flags

flags.disclaim_key_flags()  # so that --help lists the flags with those of the main
_DEFINE = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer, float: flags.DEFINE_float}


def define(config_class: Any, names: Collection[str] = (), without: Collection[str] = ()) -> None:
    """Defines a flag with the name, the default and the description of each field.

    Args:
        config_class: A dataclass. The section "Attributes:" of its docstring describes the fields;
            its attribute CHOICES, if any, maps names of fields to their allowed values. A field
            without a default gets no flag.
        names: The fields that get a flag; empty for all.
        without: Fields that get no flag.
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
            define_flag = _DEFINE.get(type(field.default), flags.DEFINE_string)
            define_flag(field.name, field.default, description)


def build(config_class: Any) -> Any:
    """Builds a dataclass from the flags that are named as its fields."""
    names = {field.name for field in dataclasses.fields(config_class)} & set(flags.FLAGS)
    return config_class(**{name: flags.FLAGS[name].value for name in names})
