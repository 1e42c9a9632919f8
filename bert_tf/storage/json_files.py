"""Reads JSON of users and other programs, and checks it against a schema.

A schema is a dict from a key to a `Rule`.
"""

import collections
import dataclasses
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files

_SHOWN = 60  # characters of a value in a message
# The start of a JSON file, which a user may have given as a text file.
START = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*"[^"\n]*"\s*:|\[\s*[{"])')
_SURROGATE = re.compile(
    r"[\ud800-\udfff]|\\u[dD][89a-fA-F]"
)  # or a half of a valid pair


@dataclasses.dataclass(frozen=True)
class Rule:
    """The values that a key may have, except null, which stands for no value.

    Attributes:
        description: The allowed values, for the message, such as "a string".
        types: The allowed Python types. `float` allows int too; `int` and `float` do
            not allow bool.
    """

    description: str
    types: tuple[type, ...]
    minimum: float = -math.inf
    maximum: float = math.inf

    def accepts(self, value: Any) -> bool:
        """Whether a value that is not null follows the rule."""
        if isinstance(value, bool):
            return bool in self.types
        types = (*self.types, int) if float in self.types else self.types
        is_number = isinstance(value, (int, float))
        is_in_range = not is_number or self.minimum <= value <= self.maximum
        return is_in_range and isinstance(value, types)


Schema = Mapping[str, Rule]
TEXT = Rule("a string", (str,))
TRUTH = Rule("true or false", (bool,))
LENGTH = Rule("a whole number from 1 to 2^31", (int,), minimum=1, maximum=1 << 31)
NUMBER = Rule("a number", (float,))
OBJECT = Rule("a JSON object", (dict,))


def read(
    path: str, schema: Schema | None = None, own: bool = False, required: bool = False
) -> dict[str, Any]:
    """Reads a file that contains one JSON object.

    Args:
        schema: The rules of known keys. Other keys may have any value.
        own: Whether bert-tf wrote the file. The message then calls an invalid file
            damaged.
        required: Whether each key of the schema must have a value that is not null.
    """
    text = files.read_text(path)
    try:
        return check(parse(text, path), schema or {}, path, required)
    except InputError as error:
        if not own:
            raise
        reason = str(error).removeprefix(f"{path}: ").replace(f"{path} ", "it ", 1)
        raise InputError(f"{path} is damaged: {reason}") from error


def read_optional(
    folder: str, name: str, schema: Schema | None = None
) -> dict[str, Any]:
    """Reads a JSON file of a checkpoint as `read` does; returns {} if there is no such file."""
    path = files.find_file(folder, name)
    return read(path, schema) if path else {}


def parse(text: str, source: str, remedy: str = "") -> Any:
    """Parses JSON as `json` does, but repeated keys and lone surrogates are errors.

    The message of an `InputError` starts with `source`, such as a path, and ends with
    `remedy` if the text is not JSON.
    """
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        excerpt = shorten(error.object[max(error.start - 20, 0) : error.end])
        raise InputError(
            f"{source} is not JSON: {excerpt} has a lone surrogate at its end."
        ) from error
    except ValueError as error:
        raise InputError(f"{source} is not JSON: {error}. {remedy}".strip()) from error
    return value


def check(
    values: Any, schema: Schema, source: str, required: bool = False
) -> dict[str, Any]:
    """Checks the values of a JSON object, and returns them; `required` is as in `read`."""
    if not isinstance(values, dict):
        raise InputError(
            f"{source} must contain one JSON object. Received: {shorten(values)}."
        )

    for key, rule in schema.items():
        value = values.get(key)
        is_valid = not required if value is None else rule.accepts(value)
        if not is_valid:
            raise InputError(
                f"{source}: {key} must be {rule.description}. Received: "
                f"{shorten(value)}."
            )
    return values


def shorten(value: Any) -> str:
    """Returns the `repr` of a value, cut to 60 characters, for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a dict of the pairs, for `json.loads`; raises ValueError if a key occurs twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        (repeated, _), *_ = collections.Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {shorten(repeated)} occurs twice")
    return values
