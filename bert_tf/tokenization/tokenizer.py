"""`BertTokenizer`: text to ids in the graph, equal to the released FullTokenizer.

Imports `basic`, `inputs`, `offsets`, `packing`, `special_tokens`, `vocabulary`, `wordpiece`;
TensorFlow.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError, plain_message
from bert_tf.tokenization import offsets, packing
from bert_tf.tokenization.basic import BasicTokenizer
from bert_tf.tokenization.inputs import as_batch, as_ragged
from bert_tf.tokenization.special_tokens import SpecialTokensInText
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, as_vocabulary
from bert_tf.tokenization.wordpiece import WordPiece
from bert_tf.weights import vocabulary_sha256


def _on_host(method: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a method on the CPU, where strings live, and without autograph.

    There is no Python control flow to convert; functions trace three times as fast without.
    """

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with tf.device("cpu:0"):
            return method(*args, **kwargs)

    return tf.autograph.experimental.do_not_convert(run)


class BertTokenizer(tf.Module):
    r"""The released tokenizer, as a few fused operations over a batch of texts.

    Works eagerly, in `tf.function` and in `tf.data`; is saved with a model that tracks it. Where
    a method takes texts, these are a str, a list of str, a numpy array or a string tensor, of
    rank 1 (a batch, ragged results [N, None]) or rank 0 (one text, results [None]). Bytes that
    are not UTF-8 are left out, as in the released code.

    Args:
        vocab: Path of a `vocab.txt`, or the list of tokens.
        do_lower_case: Whether to lower-case and drop accents, as for the uncased models.
        special_tokens_in_text: Whether `[MASK]` and its like in a text are the special tokens,
            and not ordinary text: for fill-mask. They part words as a blank does.

    Attributes:
        vocabulary: The tokens, a list of str; the id of a token is its index.
        do_lower_case: As given.
        special_tokens_in_text: As given.
        pad_id, unk_id, cls_id, sep_id, mask_id: Ids of the special tokens.
        vocabulary_sha256: SHA-256 of the tokens joined by \n, as UTF-8, in hexadecimal.

    Raises:
        InputError: The vocabulary cannot be used; see `load_vocabulary`.

    Source: google-research/bert `tokenization.FullTokenizer`.
    """

    def __init__(
        self,
        vocab: str | os.PathLike[str] | Sequence[str],
        do_lower_case: bool = True,
        special_tokens_in_text: bool = False,
    ) -> None:
        super().__init__(name="bert_tokenizer")
        if do_lower_case not in (True, False):
            raise InputError(f"do_lower_case must be True or False. Received: {do_lower_case!r}.")
        tokens = as_vocabulary(vocab)
        self._tokens = tuple(tokens)
        self._written = [
            "" if token in ("[PAD]", "[CLS]", "[SEP]") else f" {token}" for token in tokens
        ]
        self.do_lower_case = do_lower_case
        self.special_tokens_in_text = special_tokens_in_text
        self.vocabulary_sha256 = vocabulary_sha256(tokens)
        ids = [tokens.index(token) for token in SPECIAL_TOKENS]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        self._special = SpecialTokensInText(tokens) if special_tokens_in_text else None
        if self._special:
            for index, mark in zip(ids, self._special.marks, strict=True):
                tokens[index] = mark
        self._wordpiece = WordPiece(tokens, self.unk_id)
        self._basic = BasicTokenizer(do_lower_case, self._special)

    @property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids."""
        return list(self._tokens)

    @property
    def vocab_size(self) -> int:
        """Number of entries of the vocabulary."""
        return len(self._tokens)

    @_on_host
    def tokenize(self, texts: Any) -> Any:
        """Ids of the WordPiece tokens, without special tokens.

        Args:
            texts: Texts, [N] or one.

        Returns:
            Ragged int32 [N, None]; for one text int32 [None].
        """
        texts, single = as_batch(texts)
        ids, _, _ = self._wordpiece(self._basic.normalize(texts))
        return ids.values if single else ids

    @_on_host
    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """Ids, and where each token stands in the texts as given.

        Args:
            texts: Texts, [N] or one.

        Returns:
            Ids, int32, and starts and exclusive ends, int64, in bytes: three ragged tensors
            [N, None]; for one text [None]. A span covers what is dropped behind its characters,
            such as accents. `in_characters` gives offsets as Python counts them.
        """
        texts, single = as_batch(texts)
        normalized, origins = self._basic.normalize_with_offsets(texts)
        ids, starts, ends = self._wordpiece(normalized)
        pieces = _pieces(normalized, starts, ends) if self._special else None
        starts, ends = offsets.in_original(texts, origins, starts, ends)
        if self._special:
            spans = self._special.spans(pieces, starts.values, ends.values)
            starts, ends = map(ids.with_values, spans)
        return (ids.values, starts.values, ends.values) if single else (ids, starts, ends)

    @_on_host
    def in_characters(self, texts: Any, byte_offsets: Any) -> Any:
        """Starts or ends of `tokenize_with_offsets` in characters instead of bytes.

        Args:
            texts: The texts, [N] or one; UTF-8.
            byte_offsets: Ragged int [N, None]; for one text int [None].

        Returns:
            int64, of the same shape.
        """
        texts, single = as_batch(texts)
        byte_offsets, _ = as_ragged(byte_offsets, tf.int64)
        result = offsets.in_characters(texts, byte_offsets)
        return result.values if single else result

    @_on_host
    def tokenize_in_lite(self, texts: Any) -> Any:
        """As `tokenize`, with nothing but the operations that TFLite has with tensorflow-text's.

        These results may differ from those of `tokenize`: of text that is not UTF-8; of a capital
        sigma at the end of a word; of words over 200 characters, which are unknown from 800 bytes
        on only; of the few marks that canonical ordering moves and that are no accents.

        Args:
            texts: Texts, [N] or one.

        Returns:
            Ragged int32 [N, None]; for one text int32 [None].

        Raises:
            InputError: With `special_tokens_in_text`: TFLite has nothing that finds them.
        """
        if self._special:
            raise InputError(
                "TFLite has no operation that finds [MASK] in text. Make the tokenizer without "
                "special_tokens_in_text, or give the model ids."
            )
        texts, single = as_batch(texts)
        ids = self._wordpiece.with_byte_limit(self._basic.normalize_characters(texts))
        return ids.values if single else ids

    @_on_host
    def words(self, texts: Any) -> Any:
        """The words before WordPiece: normalized, and split at blanks and punctuation.

        Args:
            texts: Texts, [N] or one.

        Returns:
            Ragged string [N, None]; for one text string [None].
        """
        texts, single = as_batch(texts)
        words = self._basic.words(texts)
        return words.values if single else words

    @_on_host
    def pack(self, ids_a: Any, ids_b: Any = None, seq_length: int | None = 128) -> dict[str, Any]:
        """[CLS] A [SEP], or [CLS] A [SEP] B [SEP], padded: the inputs of the model.

        What does not fit leaves from the end of the longer text, of B on a tie, as in the
        released `_truncate_seq_pair` of the classifiers.

        Args:
            ids_a: Ids [B, None]: ragged, a list of lists, or dense without padding; or of one
                text, [None]. `[]` is one text without tokens.
            ids_b: Ids of the second texts, as many, or None.
            seq_length: Length S of the result, or None for the longest of the batch.

        Returns:
            `input_ids`, `input_mask` (1 = a token) and `segment_ids` (1 = B and its [SEP]), int32
            [B, S]; for one text [S].

        Raises:
            InputError: `seq_length` has no room for the special tokens, the ids are no ids, or
                there are more of one than of the other. In a graph that learns their number only
                when it runs: tf.errors.InvalidArgumentError.
        """
        ids_a, single = as_ragged(ids_a)
        if ids_b is not None:
            ids_b, other_single = as_ragged(ids_b)
            ids_a, ids_b = packing.check_pairs(ids_a, ids_b, single, other_single)
        special = (self.cls_id, self.sep_id, self.pad_id)
        packed = packing.pack(ids_a, ids_b, seq_length, *special)
        return {name: value[0] if single else value for name, value in packed.items()}

    @_on_host
    def detokenize(self, ids: Any) -> Any:
        """Text from ids: pieces joined to words, words with blanks between them.

        [PAD], [CLS] and [SEP] are left out.

        Args:
            ids: int [N, None], ragged or not, or of one text [None]. `[]` is one text without
                tokens.

        Returns:
            string [N], or one string.

        Raises:
            InputError: The ids are no ids, or not of this vocabulary.
        """
        ids, single = as_ragged(ids, tf.int64)
        try:
            tokens = tf.gather(tf.constant(self._written), ids.values)
        except tf.errors.InvalidArgumentError as error:
            raise InputError(
                f"An id is not of this vocabulary, of {self.vocab_size} entries: "
                f"{plain_message(error)}."
            ) from error
        joined = tf.strings.reduce_join(ids.with_values(tokens), axis=-1)
        texts = tf.strings.strip(tf.strings.regex_replace(joined, " ##", ""))
        return texts[0] if single else texts


def _pieces(texts: Any, starts: Any, ends: Any) -> Any:
    """The tokens as they stand in the normalized texts: string [tokens]."""
    own = tf.gather(texts, starts.value_rowids())
    return tf.strings.substr(own, starts.values, ends.values - starts.values)
