"""Options: fields of config dataclasses, with their texts for `--help` and docstrings."""

import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from typing import Any, TypeVar

_Config = TypeVar("_Config", bound=type)
_WIDTH = 88  # characters in a line of a docstring


def option(
    default: Any,
    text: str,
    *,
    choices: Sequence[str] = (),
    flag: str | None = None,
    is_path: bool = False,
) -> Any:
    """Returns a dataclass field for an option, with its description and its flag.

    Args:
        default: The default; `dataclasses.MISSING` if the option has no default.
        text: The description; a name in back quotes refers to another option.
        choices: The allowed values; () allows any value.
        flag: The name of the command-line flag; None if it is the name of the field.
        is_path: Whether the value is a path, or a comma list of paths.
    """
    metadata = {"text": text, "choices": choices, "is_path": is_path}
    if flag:
        metadata["flag"] = flag
    return dataclasses.field(default=default, metadata=metadata)


def documented(config_class: _Config) -> _Config:
    """Adds the descriptions of the options to the docstring of a dataclass."""
    entries = [
        textwrap.fill(
            f"{field.name}: {field.metadata['text']}",
            _WIDTH - 4,
            initial_indent="    ",
            subsequent_indent=" " * 8,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for field in dataclasses.fields(config_class)
        if field.name in inspect.get_annotations(config_class)
    ]
    attributes = "\n".join(["Attributes:", *entries])

    # The attributes come after the purpose, and before the errors and the source.
    sections = (inspect.getdoc(config_class) or "").split("\n\n")
    titles = ("Raises:", "Source:")
    numbers = [n for n, text in enumerate(sections) if text.startswith(titles)]
    sections.insert(min(numbers, default=len(sections)), attributes)
    config_class.__doc__ = "\n\n".join(sections)
    return config_class
