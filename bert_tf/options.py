"""Options: the fields of configs, with the texts of `--help` and of the documentation."""

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
    """Returns a field of a dataclass.

    Args:
        default: The default; `dataclasses.MISSING` if there is none.
        text: The description; a name in back quotes is that of another option.
        choices: The allowed values; () for any.
        flag: The name of the flag, if it is not that of the field.
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

    # After the purpose, and before the errors and the source.
    sections = (inspect.getdoc(config_class) or "").split("\n\n")
    titles = ("Raises:", "Source:")
    place = next(
        (number for number, text in enumerate(sections) if text.startswith(titles)),
        len(sections),
    )
    config_class.__doc__ = "\n\n".join(
        [*sections[:place], attributes, *sections[place:]]
    )
    return config_class
