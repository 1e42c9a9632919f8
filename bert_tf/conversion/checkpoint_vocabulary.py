"""The vocabulary of a checkpoint: one that the user gives, or new words in it.

`with_tokenizer` checks a vocabulary and a casing that the user gives against those of a
checkpoint. `with_new_words` gives words entries of their own.
"""

import dataclasses
import itertools
import logging
import re
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.errors import InputError
from bert_tf.storage.weights import vocabulary_sha256
from bert_tf.tokenization.vocabulary import (
    cased_entries,
    check_size,
    check_vocabulary,
    known_casing,
    load_vocabulary,
    released_casing,
    validate_case_matches_checkpoint,
)

_LOG = logging.getLogger(__name__)
_UNUSED = re.compile(r"\[unused\d+\]")
# Matrix products are fastest if the number of entries is a multiple of this number.
_MULTIPLE = 8
# The weights with a row for each entry. The output kernel of the masked LM is the first
# of them.
_TABLES = ("bert/embeddings/word_embeddings", "cls/predictions/output_bias")


def with_tokenizer(
    contents: CheckpointContents, vocab_file: str | None, do_lower_case: bool | None
) -> CheckpointContents:
    """Returns the contents of a checkpoint, with the vocabulary and casing if given.

    Args:
        contents: The contents, with a config.
        vocab_file: The `vocab.txt`, or None for the vocabulary of the checkpoint.
        do_lower_case: The casing, or None for that of the checkpoint or of
            `vocab_file`.

    Raises:
        InputError: The vocabulary is not valid or does not match the model, or
            vocabulary or casing differ from those of the checkpoint.
    """
    vocabulary = contents.vocabulary
    source = f"the vocabulary of {contents.source}"
    size = contents.require_config().vocab_size

    if vocab_file is not None:
        vocabulary = load_vocabulary(vocab_file)
        source = vocab_file
        _check_same_vocabulary(contents, vocabulary, source)
        check_size(vocabulary, size, source)
    elif vocabulary is not None:
        check_vocabulary(vocabulary, source)
        # A checkpoint with fewer tokens than rows is converted as it is.
        if len(vocabulary) > size:
            check_size(vocabulary, size, source)

    casing = _casing_of(contents, vocab_file, do_lower_case)
    if casing and (cased := cased_entries(vocabulary or ())):
        _LOG.warning(
            "warning: do_lower_case is True, so no text reaches %s entries of %s, "
            "which have upper-case letters. Check the do_lower_case of the model.",
            cased,
            source,
        )

    return dataclasses.replace(contents, vocabulary=vocabulary, do_lower_case=casing)


def _check_same_vocabulary(
    contents: CheckpointContents, vocabulary: Sequence[str], source: str
) -> None:
    """Checks that a given vocabulary is that of a checkpoint of bert-tf."""
    own = contents.vocabulary if contents.dialect == "bert-tf" else None
    if own and list(own) != list(vocabulary):
        raise InputError(
            f"{source} has the SHA-256 {vocabulary_sha256(vocabulary)[:12]}, but "
            f"{contents.source} was trained with the vocabulary "
            f"{vocabulary_sha256(own)[:12]}. Leave out vocab_file to use that "
            "vocabulary."
        )


def _casing_of(
    contents: CheckpointContents, vocab_file: str | None, do_lower_case: bool | None
) -> bool | None:
    """Returns the casing: as given, of the checkpoint, vocabulary or path, or None."""
    known = contents.do_lower_case
    if do_lower_case is None and known is not None:
        return known

    # The tokenizer settings of a Hugging Face folder may be wrong; `do_lower_case`
    # overrides them.
    if known not in (None, do_lower_case) and contents.dialect != "hugging_face":
        raise InputError(
            f"do_lower_case={do_lower_case} was given, but {contents.source} was "
            f"trained with do_lower_case={known}. Leave out do_lower_case."
        )

    vocabulary = vocab_file or contents.vocabulary
    casing = known_casing(vocabulary, do_lower_case) if vocabulary else do_lower_case
    if casing is None:
        return released_casing(contents.source)
    validate_case_matches_checkpoint(casing, contents.source)
    return casing


def with_new_words(
    contents: CheckpointContents, new_words: Mapping[str, Sequence[int]]
) -> CheckpointContents:
    """Gives words entries of their own in the vocabulary of a checkpoint.

    The words replace the [unusedN] entries, in the order of the ids. Further words
    follow the last entry; the vocabulary then gets as many [unusedN] entries that its
    size, and that of the table of embeddings, is a multiple of 8. The row of a new word
    is the mean of the rows of the pieces that the word had, in the word embeddings and
    in the output bias of the masked LM, if the checkpoint has one. Each [unusedN] row
    that is added is a copy of that of [PAD], which a trained model never predicts. All
    other values are unchanged; Adam's moments are left out.

    Args:
        contents: The checkpoint, with config and vocabulary.
        new_words: The ids of the pieces, by word. The words are not in the vocabulary.
    """
    tokens = list(contents.vocabulary or ())
    words = list(new_words)
    config = contents.require_config()
    pad = tokens.index("[PAD]")
    size = config.vocab_size
    num_tokens = len(tokens)

    # The words take the places of the [unusedN] entries.
    ids = [index for index, token in enumerate(tokens) if _UNUSED.fullmatch(token)][
        : len(words)
    ]
    for index, word in zip(ids, words, strict=False):
        tokens[index] = word

    # The other words are appended, and the size is rounded up.
    if appended := words[len(ids) :]:
        size = -(-max(size, num_tokens + len(appended)) // _MULTIPLE) * _MULTIPLE
        ids += range(num_tokens, num_tokens + len(appended))
        tokens += [
            *appended,
            *_unused_names(contents.vocabulary or (), size - len(tokens + appended)),
        ]

    # Each table gets the new rows, and the new words the means of their pieces.
    arrays = dict(contents.arrays)
    for name in arrays.keys() & set(_TABLES):
        old = arrays[name]
        arrays[name] = np.concatenate(
            [old, np.repeat(old[pad : pad + 1], size - len(old), axis=0)]
        )
        for index, pieces in zip(ids, new_words.values(), strict=True):
            arrays[name][index] = old[list(pieces)].mean(axis=0)

    return dataclasses.replace(
        contents,
        arrays=arrays,
        config=dataclasses.replace(config, vocab_size=size),
        vocabulary=tokens,
        # The values of an evaluation are those of the old entries.
        extra={key: value for key, value in contents.extra.items() if key != "eval"},
        slots={},
    )


def _unused_names(tokens: Sequence[str], number: int) -> list[str]:
    """Returns names of [unusedN] entries that are not among the tokens."""
    names = (f"[unused{n}]" for n in range(len(tokens) + number))
    known = set(tokens)
    return [*itertools.islice((name for name in names if name not in known), number)]
