"""Reads and checks `vocab.txt` files, their casing, and whether they fit a text.

The casing of a vocabulary that `train_vocabulary` wrote is in a file next to it: the
casing of vocab.txt (the value of `do_lower_case`) is in vocab.txt.json. The casing of a
released model is known from the name of its folder. Text in another casing or language
than its vocabulary becomes mostly [UNK], and a model then trains and predicts without
an error, so `unknown_warning` returns a warning.
"""

import json
import logging
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.storage import atomic_files, files, json_files
from bert_tf.storage.overwrite_rule import refusal
from bert_tf.storage.paths import check_output_file, is_stdout, real_path
from bert_tf.storage.weights import read_vocabulary, vocabulary_sha256

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MAX_TOKEN_BYTES = 256  # The WordPiece operation stores a length in 8 bits.
_MAX_PADDING = 127
_LINE_ENDS = re.compile(r"[\n\r\x00]")
# A vocabulary is cased if at least this share of its entries, and this number, have
# upper-case letters: the tokenizer never finds such entries in lower-cased text.
# Entries in brackets, such as [MASK] and <S>, do not count. The released vocabularies:
# uncased 0 of 29,523, Chinese 0 of 21,022, cased 8,366 of 28,890 (29 %), multilingual
# cased 18,992 of 119,441 (16 %).
_CASED_SHARE = 0.01
_CASED_ENTRIES = 20
_IN_BRACKETS = re.compile(r"\[.*\]|<.*>")
_CASING = {"do_lower_case": json_files.TRUTH, "vocabulary_sha256": json_files.TEXT}
_LOG = logging.getLogger(__name__)
_RELEASED = re.compile(
    r"(?:^|/)(?:wwm_)?(uncased|cased|multilingual|multi_cased|chinese)_L-"
)
_LOWER_CASED = ("uncased", "multilingual", "chinese")
UNKNOWN_LIMIT = 0.02
_REMEDY = (
    "Check that do_lower_case and vocab_file are those of the model, and that the "
    "vocabulary covers the language of the text"
)


def load_vocabulary(path: str) -> list[str]:
    r"""Reads and checks a `vocab.txt`: one token per line.

    The id of a token is its line number, from 0. Lines end at \n or \r\n only. White
    space around a token is removed, as in the released `load_vocab`, except in two
    tokens of the released Chinese file, U+2028 and ##U+2028. As in the released code, a
    repeated token gets the id of its last line, and no text ever becomes an empty token
    or one with white space inside. Empty lines at the end are not entries.

    Raises:
        InputError: The file is not UTF-8, or its line ends are CR; a token contains CR
            or NUL, or is longer than 256 bytes; or a special token is missing or
            repeated.
    """
    tokens = read_vocabulary(path)
    check_vocabulary(tokens, path)
    return tokens


def check_vocabulary(tokens: Sequence[str], source: str = "the vocabulary") -> None:
    """Checks that tokens, in the order of their ids, are valid (see `load_vocabulary`)."""
    seen: dict[str, int] = {}
    for line, token in enumerate(tokens, 1):
        if _LINE_ENDS.search(token):
            raise InputError(
                f"{source}: line {line} contains a line end or NUL: {token[:40]!r}. "
                "Each line must hold one token."
            )
        if token in seen and token in SPECIAL_TOKENS:
            raise InputError(
                f"{source}: line {line} repeats {token} of line {seen[token]}, so its "
                "id is not known. Give the vocab.txt that the model was trained with."
            )
        if len(token.encode()) > _MAX_TOKEN_BYTES:
            raise InputError(
                f"{source}: line {line} is longer than {_MAX_TOKEN_BYTES} bytes. Give "
                "a vocab.txt with one token per line."
            )
        seen[token] = line

    # The reader of a `vocab.txt` drops empty lines at its end.
    if tokens and not tokens[-1]:
        raise InputError(
            f"{source}: line {len(tokens)} is empty, and is the last one. Leave out "
            "empty lines at the end."
        )
    # A file of another kind has valid lines, but no special tokens.
    missing = [token for token in SPECIAL_TOKENS if token not in seen]
    if missing:
        raise InputError(
            f"{source}: none of the {len(tokens)} lines is {' or '.join(missing)}. The "
            f"vocabulary of a BERT model must hold {' '.join(SPECIAL_TOKENS)}."
        )


def check_size(
    tokens: Sequence[str], vocab_size: int, source: str = "the vocabulary"
) -> None:
    """Checks the number of tokens against the `vocab_size` of a model.

    A model may have up to 127 more entries than the vocabulary has tokens, since some
    models pad their embedding tables to a multiple of 8 or 128.
    """
    if not 0 <= vocab_size - len(tokens) <= _MAX_PADDING:
        raise InputError(
            f"{source} has {len(tokens)} entries, but the model's vocab_size is "
            f"{vocab_size}. Give the vocab.txt that the model was trained with."
        )


def check_casing_file(path: str, inputs: Iterable[str]) -> None:
    """Checks, before a vocabulary is learned, that its casing file replaces no data.

    The casing file is next to the `vocab.txt`. It must not be an input, and if it
    exists, it must contain a casing. A `vocab.txt` on the standard output has none.
    """
    if is_stdout(path):
        return
    casing_file = _casing_files(path)[-1]
    check_output_file(casing_file, inputs)
    if files.is_file(casing_file):
        try:
            json_files.read(casing_file, _CASING, required=True)
        except InputError as error:
            reason = f"but has other content than the casing of {path}"
            raise refusal(casing_file, reason, "Give another output_file") from error


def write_vocabulary(path: str, tokens: Sequence[str], do_lower_case: bool) -> None:
    """Writes a `vocab.txt`, and its casing to the file next to it.

    If one of them cannot be written, such as on a full disk, both are unchanged. If the
    path is a link, both files are next to the target of the link. If it is the standard
    output, the casing is not written. `do_lower_case` says whether the text that the
    vocabulary was learned from was lower-cased.
    """
    text = "\n".join(tokens) + "\n"
    if is_stdout(path):
        files.write_text(path, text)
        return

    casing = {
        "do_lower_case": do_lower_case,
        "vocabulary_sha256": vocabulary_sha256(tokens),
    }
    # The casing appears under its name only after the vocabulary is written.
    with atomic_files.atomic_replace(_casing_files(path)[-1]) as temporary:
        with files.open_binary(temporary, "wb") as file:
            file.write(json.dumps(casing, indent=2).encode() + b"\n")
        files.write_text(path, text)


def _casing_files(path: str) -> list[str]:
    """Returns the possible paths of the casing file: next to a `vocab.txt` or its link target."""
    return list(dict.fromkeys([f"{path}.json", f"{real_path(path)}.json"]))


def recorded_casing(path: str) -> bool | None:
    """Returns the casing that `write_vocabulary` wrote for a `vocab.txt`, or None.

    The result is None if there is no casing file, or if it belongs to another
    vocabulary, which is logged. A file with other content than a casing raises
    `InputError`.
    """
    for casing_file in filter(files.is_file, _casing_files(path)):
        content = json_files.read(casing_file, _CASING, required=True)
        if content["vocabulary_sha256"] == vocabulary_sha256(read_vocabulary(path)):
            return bool(content["do_lower_case"])
        _LOG.info(
            "%s is ignored: it belongs to another vocabulary than %s.",
            casing_file,
            path,
        )
    return None


def known_casing(vocab: str | Sequence[str], do_lower_case: bool | None) -> bool | None:
    """Returns `do_lower_case` or, if it is None, the casing of a vocabulary if known.

    The file next to the `vocab.txt` records the casing. Without such a file, the casing
    is False, which is logged, if 20 or more entries, and at least 1 %, have upper-case
    letters.

    Raises:
        InputError: The vocabulary was learned from text of the other casing, or the
            file next to the `vocab.txt` has other content than a casing.
    """
    # The casing in the file next to the vocabulary, and that of the caller.
    recorded = recorded_casing(vocab) if isinstance(vocab, str) else None
    if do_lower_case is not None and recorded not in (None, do_lower_case):
        raise InputError(
            f"do_lower_case is {do_lower_case}, but {vocab} was learned from text with "
            f"do_lower_case={recorded} (see {vocab}.json). Set "
            f"do_lower_case={recorded}, or train another vocabulary."
        )
    casing = recorded if do_lower_case is None else bool(do_lower_case)
    if casing is not None:
        return casing

    # The casing that the entries show.
    cased = cased_entries(read_vocabulary(vocab) if isinstance(vocab, str) else vocab)
    if not cased:
        return None

    source = vocab if isinstance(vocab, str) else "The vocabulary"
    _LOG.info(
        "%s has upper-case letters in %s entries: do_lower_case is False.",
        source,
        cased,
    )
    return False


def cased_entries(tokens: Sequence[str]) -> str:
    """Returns how many entries have upper-case letters, such as "30 of 100".

    Entries in brackets do not count. Returns "" if so few have upper-case letters that
    the vocabulary is not cased.
    """
    entries = [token for token in tokens if not _IN_BRACKETS.fullmatch(token)]
    upper = sum(token != token.lower() for token in entries)
    is_cased = upper >= max(_CASED_SHARE * len(entries), _CASED_ENTRIES)
    return f"{upper} of {len(entries)}" if is_cased else ""


def released_casing(path: str) -> bool | None:
    """Returns whether the released model that a path names needs lower-cased text.

    The start of a folder or file name, such as `uncased_L-12_H-768_A-12.zip`,
    identifies a released model, including the smaller and the whole-word-masking
    models. The result is None if the path names no released model.

    Source: google-research/bert README;
    `tokenization.validate_case_matches_checkpoint`.
    """
    match = _RELEASED.search(path)
    return match[1] in _LOWER_CASED if match else None


def validate_case_matches_checkpoint(
    do_lower_case: bool, init_checkpoint: str | None
) -> None:
    """Checks `do_lower_case` against the released model that a path names.

    None and paths that name no released model are accepted.

    Source: google-research/bert `tokenization.validate_case_matches_checkpoint`.
    """
    released = released_casing(init_checkpoint or "")
    if released not in (None, do_lower_case):
        raise InputError(
            f"do_lower_case is {do_lower_case}, but {init_checkpoint} is a model for "
            f"{'lower-cased' if released else 'cased'} text. Set do_lower_case to "
            f"{released}."
        )


def count_unknown(
    ids: Any, unk_id: int, special_ids: Collection[int]
) -> tuple[int, int]:
    """Counts [UNK], and all ids that stand for text, in integers of any shape.

    Returns:
        The number of [UNK], and the number of ids that are not in `special_ids`, the
        ids of [PAD], [CLS] and [SEP].
    """
    ids = np.asarray(ids)
    return int((ids == unk_id).sum()), int((~np.isin(ids, list(special_ids))).sum())


def unknown_warning(
    unknown: int, total: int, what: str, remedy: str = _REMEDY
) -> str | None:
    """Returns a one-line warning if more than 2 % of the tokens are [UNK], else None.

    `total` does not count [PAD], [CLS] and [SEP]. In the warning, `what` names the
    counted tokens, such as "tokens of dev.tsv", and `remedy` is a sentence without a
    full stop.
    """
    if unknown <= UNKNOWN_LIMIT * total:
        return None
    return (
        f"{unknown:,} of {total:,} {what} ({unknown / total:.1%}) are [UNK], which is "
        f"above {UNKNOWN_LIMIT:.0%}. {remedy}."
    )
