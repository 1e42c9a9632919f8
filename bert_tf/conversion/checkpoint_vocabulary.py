"""Checks a vocabulary and a casing (`do_lower_case`) from the user against a checkpoint."""

import dataclasses
import logging

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


def with_tokenizer(
    contents: CheckpointContents, vocab_file: str | None, do_lower_case: bool | None
) -> CheckpointContents:
    """Returns the contents with the given vocabulary and casing, after checks.

    If `vocab_file` is None, the vocabulary of the checkpoint is kept. If
    `do_lower_case` is None, the casing is that of the checkpoint or of `vocab_file`.

    Raises:
        InputError: The vocabulary is not valid or does not match the model, or
            the vocabulary or the casing differs from that of the checkpoint.
    """
    vocabulary = contents.vocabulary
    source = f"the vocabulary of {contents.source}"
    size = contents.require_config().vocab_size

    if vocab_file is not None:
        own, vocabulary = vocabulary, load_vocabulary(vocab_file)
        source = vocab_file
        # A model of bert-tf must be used with the vocabulary of its training.
        if contents.dialect == "bert-tf" and own and own != vocabulary:
            raise InputError(
                f"{source} has the SHA-256 {vocabulary_sha256(vocabulary)[:12]}, but "
                f"{contents.source} was trained with the vocabulary "
                f"{vocabulary_sha256(own)[:12]}. Leave out vocab_file to use that "
                "vocabulary."
            )
        check_size(vocabulary, size, source)
    elif vocabulary is not None:
        check_vocabulary(vocabulary, source)
        # The embedding table may have more rows than the vocabulary has tokens.
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


def _casing_of(
    contents: CheckpointContents, vocab_file: str | None, do_lower_case: bool | None
) -> bool | None:
    """Returns `do_lower_case`; if None, the casing of checkpoint, vocabulary or path, if known."""
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
