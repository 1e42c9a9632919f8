"""Reads the tokenizer of a Hugging Face folder, and finds unsupported settings.

`BertTokenizer` has the rules of google-research/bert. The files of a folder may
describe a tokenizer with other rules, which gives other ids. This module compares the
files with the rules of `BertTokenizer`.

Source: `AutoTokenizer` of transformers 4.57 and 5.23.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf.errors import shortened

TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
TOKENIZER_FILE = "tokenizer.json"
ADDED_TOKENS_FILE = "added_tokens.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
FILES = (TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, ADDED_TOKENS_FILE, SPECIAL_TOKENS_FILE)

# These classes have the rules of google-research/bert. They take their settings from
# `tokenizer_config.json` and ignore the normalizer in `tokenizer.json`.
_BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
# These classes have the rules that `tokenizer.json` describes.
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
# For each setting in `tokenizer_config.json`, the key in the normalizer of
# `tokenizer.json`.
_NORMALIZER_KEYS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_DEFAULTS = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
}
# The supported values in `tokenizer.json`. The limit of `BertTokenizer` is 200
# characters per word. The usual limit of 100 gives other ids only for words of more
# than 100 characters.
_SUPPORTED: dict[str, dict[str, tuple[Any, ...]]] = {
    "normalizer": {"type": ("BertNormalizer",), "clean_text": (True,)},
    "pre_tokenizer": {"type": ("BertPreTokenizer",)},
    "model": {
        "type": ("WordPiece",),
        "unk_token": ("[UNK]",),
        "continuing_subword_prefix": ("##",),
        "max_input_chars_per_word": (100, 200),
    },
}
_CLS, _SEP_A, _SEP_B = (
    {"SpecialToken": {"id": token, "type_id": segment}}
    for token, segment in (("[CLS]", 0), ("[SEP]", 0), ("[SEP]", 1))
)
_A, _B = (
    {"Sequence": {"id": name, "type_id": index}} for index, name in enumerate("AB")
)
_TEMPLATES = {"single": [_CLS, _A, _SEP_A], "pair": [_CLS, _A, _SEP_A, _B, _SEP_B]}
_SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_TOKEN_LISTS = (
    "additional_special_tokens",
    "extra_special_tokens",
    "added_tokens_decoder",
)


def tokenizer_fields(
    contents: Mapping[str, Mapping[str, Any]], vocabulary: list[str] | None
) -> dict[str, Any]:
    """Returns the fields of `CheckpointContents` that describe the tokenizer.

    The field `vocabulary` is None if there are no tokens, or if `BertTokenizer` would
    give other ids than the folder's tokenizer.

    Args:
        contents: The contents of each file of `FILES`; {} for an absent file.
        vocabulary: The tokens in `vocab.txt`, or None if this file does not exist.
    """
    config = contents[TOKENIZER_CONFIG_FILE]
    serialized = contents[TOKENIZER_FILE]

    # All reasons for which `BertTokenizer` would give other ids.
    problems = [
        *_class_problems(config),
        *_setting_problems(config, serialized),
        *(_serialized_problems(serialized) if serialized else ()),
        *_token_problems(contents),
        *_vocabulary_problems(serialized, vocabulary),
    ]

    if vocabulary is None:
        vocabulary = _serialized_vocabulary(serialized)
    casing = {**_in_normalizer(serialized), **_settings(config, serialized)}.get(
        "do_lower_case"
    )

    return {
        "vocabulary": None if problems else vocabulary,
        "do_lower_case": casing if isinstance(casing, bool) else None,
        "tokenizer_problem": "; ".join(problems),
    }


def _class_name(config: Mapping[str, Any]) -> str:
    return str(config.get("tokenizer_class") or _BERT_CLASSES[0]).removesuffix("Fast")


def _class_problems(config: Mapping[str, Any]) -> Iterator[str]:
    supported = (*_BERT_CLASSES, *_GENERIC_CLASSES)
    if _class_name(config) not in supported:
        yield _problem("tokenizer_class", config["tokenizer_class"], supported)

    # A class in the folder, which transformers uses with trust_remote_code=True.
    own = config.get("auto_map")
    if isinstance(own, dict):
        own = own.get("AutoTokenizer")
    if own:
        yield _problem(f"{TOKENIZER_CONFIG_FILE}/auto_map", own, (None,))


def _in_normalizer(serialized: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings in `tokenizer.json`, by their names in `tokenizer_config.json`."""
    normalizer = serialized.get("normalizer") or {}
    return {
        name: normalizer[key]
        for name, key in _NORMALIZER_KEYS.items()
        if key in normalizer
    }


def _settings(
    config: Mapping[str, Any], serialized: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the settings that transformers reads from the files, without defaults."""
    if serialized and _class_name(config) in _GENERIC_CLASSES:
        return _in_normalizer(serialized)
    return {name: config[name] for name in _DEFAULTS if name in config}


def _setting_problems(
    config: Mapping[str, Any], serialized: Mapping[str, Any]
) -> Iterator[str]:
    settings = _settings(config, serialized)
    used = {**_DEFAULTS, **settings}
    lower = used["do_lower_case"]

    if not isinstance(lower, bool):
        yield _problem(f"{TOKENIZER_CONFIG_FILE}/do_lower_case", lower, (True, False))
    if used["strip_accents"] not in (None, lower):
        yield _problem("strip_accents", used["strip_accents"], (None, lower))
    if used["tokenize_chinese_chars"] is not True:
        yield _problem(
            "tokenize_chinese_chars", used["tokenize_chinese_chars"], (True,)
        )

    for name, value in _in_normalizer(serialized).items():
        # The default of strip_accents, null, has the effect of the value of
        # do_lower_case.
        same = (None, lower) if name == "strip_accents" else (used[name],)
        if name not in settings and value not in same:
            yield (
                f"{TOKENIZER_FILE}/normalizer/{_NORMALIZER_KEYS[name]} is "
                f"{_json(value)}, but transformers ignores this and uses the default "
                f"{_json(used[name])}, because {TOKENIZER_CONFIG_FILE}/{name} is "
                "missing (add it)"
            )


def _serialized_problems(serialized: Mapping[str, Any]) -> Iterator[str]:
    """Yields problems: unsupported settings that only `tokenizer.json` can have."""
    for section, supported in _SUPPORTED.items():
        values = serialized.get(section)
        if not isinstance(values, dict):
            yield f"{TOKENIZER_FILE}/{section} is {_json(values)}"
            continue
        for key, allowed in supported.items():
            if values.get(key, allowed[0]) not in allowed:
                yield _problem(
                    f"{TOKENIZER_FILE}/{section}/{key}", values[key], allowed
                )

    post_processor = serialized.get("post_processor") or {}
    if post_processor.get("type", "BertProcessing") != "BertProcessing":
        templates = {key: post_processor.get(key) for key in _TEMPLATES}
        if templates != _TEMPLATES:
            yield f"{TOKENIZER_FILE}/post_processor is not [CLS] A [SEP] B [SEP]"


def _token_problems(contents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields problems: special tokens with names unlike those of BERT, and added tokens."""
    config = contents[TOKENIZER_CONFIG_FILE]
    named_in = {TOKENIZER_CONFIG_FILE: config}
    # With this key, transformers ignores the other file.
    if "added_tokens_decoder" not in config:
        named_in[SPECIAL_TOKENS_FILE] = contents[SPECIAL_TOKENS_FILE]

    # The tokens that each file adds.
    added = {
        TOKENIZER_FILE: _tokens(contents[TOKENIZER_FILE].get("added_tokens")),
        ADDED_TOKENS_FILE: list(contents[ADDED_TOKENS_FILE]),
    }

    for file, values in named_in.items():
        added[file] = []
        for key, value in values.items():
            if key in _SPECIAL_TOKENS and _tokens(value) not in (
                [],
                [_SPECIAL_TOKENS[key]],
            ):
                yield _problem(
                    f"{file}/{key}", _tokens(value)[0], (_SPECIAL_TOKENS[key],)
                )
            elif key.endswith("_token") or key in _TOKEN_LISTS:
                added[file] += _tokens(value)

    for file, tokens in added.items():
        others = [token for token in tokens if token not in _SPECIAL_TOKENS.values()]
        if others:
            yield f"{file} adds the tokens {shortened([*map(_json, others)], 3)}"


def _tokens(value: Any) -> list[str]:
    """Returns the tokens in a str, in a dict with the key `content`, or in several of these."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [value["content"]] if "content" in value else [*value.values()]
    return (
        [token for item in value for token in _tokens(item)]
        if isinstance(value, list)
        else []
    )


def _serialized_vocabulary(serialized: Mapping[str, Any]) -> list[str] | None:
    """Returns the tokens of `tokenizer.json`, or None if their ids are not 0, 1, 2 and so on."""
    ids = (serialized.get("model") or {}).get("vocab")
    if not isinstance(ids, dict) or sorted(ids.values()) != [*range(len(ids))]:
        return None
    return sorted(ids, key=ids.__getitem__)


def _vocabulary_problems(
    serialized: Mapping[str, Any], vocabulary: list[str] | None
) -> Iterator[str]:
    if not serialized:
        return
    if vocabulary is None:
        if _serialized_vocabulary(serialized) is None:
            vocab = f"{TOKENIZER_FILE}/model/vocab"
            yield f"{vocab} does not hold the ids 0, 1, 2 and so on"
        return

    # If a token is repeated, its id is the last one. `vocab.txt` is read without the
    # white space around tokens, and no text ever becomes a token with such white space.
    ids = (serialized.get("model") or {}).get("vocab")
    tokenizer_ids, expected = (
        {
            token: index
            for token, index in mapping.items()
            if token and token == token.strip()
        }
        for mapping in (
            ids if isinstance(ids, dict) else {},
            {token: index for index, token in enumerate(vocabulary)},
        )
    )

    if tokenizer_ids != expected:
        yield f"vocab.txt and {TOKENIZER_FILE}/model/vocab hold different tokens"


def _problem(setting: str, value: Any, supported: tuple[Any, ...]) -> str:
    return (
        f"{setting} is {_json(value)} (supported: {', '.join(map(_json, supported))})"
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
