"""`BertTokenizer`: text to ids in the graph, equal to the released FullTokenizer.

Imports `basic`, `offsets`, `packing`, `tables`, `vocabulary`, `wordpiece`; TensorFlow.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.tokenization import offsets, packing, tables
from bert_tf.tokenization.basic import BasicTokenizer, as_batch
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, check_vocabulary, load_vocabulary
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
            and not ordinary text: for fill-mask.

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
        if isinstance(vocab, (str, os.PathLike)):
            tokens = load_vocabulary(os.fspath(vocab))
        else:
            tokens = list(vocab)
            check_vocabulary(tokens)
        self._tokens = tuple(tokens)
        self.do_lower_case = do_lower_case
        self.special_tokens_in_text = special_tokens_in_text
        self.vocabulary_sha256 = vocabulary_sha256(tokens)
        ids = [tokens.index(token) for token in SPECIAL_TOKENS]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        if special_tokens_in_text:
            for index, mark in zip(ids, tables.SPECIAL_TOKEN_MARKS, strict=True):
                tokens[index] = chr(mark)
        self._wordpiece = WordPiece(tokens, self.unk_id)
        self._basic = BasicTokenizer(do_lower_case, special_tokens_in_text)

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
        longer = self._beyond_marks(normalized, starts, ends)
        starts, ends = offsets.in_original(texts, origins, starts, ends)
        if self.special_tokens_in_text:
            ends = ends.with_values(ends.values + longer)
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
        if single:
            byte_offsets = tf.RaggedTensor.from_tensor(tf.convert_to_tensor(byte_offsets)[None])
        result = offsets.in_characters(texts, byte_offsets)
        return result.values if single else result

    @_on_host
    def tokenize_in_lite(self, texts: Any) -> Any:
        """As `tokenize`, with nothing but the operations that TFLite has with tensorflow-text's.

        These results may differ from those of `tokenize`: of text that is not UTF-8; of a capital
        sigma at the end of a word; of words over 200 characters, which are unknown from 800 bytes
        on only; of the few marks that canonical ordering moves and that are no accents.

        Args:
            texts: string [N].

        Returns:
            Ragged int32 [N, None].
        """
        return self._wordpiece.with_byte_limit(self._basic.normalize_characters(texts))

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
            ids_a: Ids [B, None]: ragged, a list of lists, or dense without padding.
            ids_b: Ids [B, None] of the second texts, or None.
            seq_length: Length S of the result, or None for the longest of the batch.

        Returns:
            `input_ids`, `input_mask` (1 = a token) and `segment_ids` (1 = B and its [SEP]), int32
            [B, S].

        Raises:
            InputError: `seq_length` has no room for the special tokens.
        """
        ids_a, ids_b = _as_ragged(ids_a), None if ids_b is None else _as_ragged(ids_b)
        return packing.pack(ids_a, ids_b, seq_length, self.cls_id, self.sep_id, self.pad_id)

    @_on_host
    def detokenize(self, ids: Any) -> Any:
        """Text from ids: pieces joined to words, words with blanks between them.

        [PAD], [CLS] and [SEP] are left out.

        Args:
            ids: int [N, None], ragged or not, or [None].

        Returns:
            string [N], or one string.
        """
        texts = [
            "" if token in ("[PAD]", "[CLS]", "[SEP]") else f" {token}" for token in self._tokens
        ]
        joined = tf.strings.reduce_join(tf.gather(tf.constant(texts), ids), axis=-1)
        return tf.strings.strip(tf.strings.regex_replace(joined, " ##", ""))

    def _beyond_marks(self, normalized: Any, starts: Any, ends: Any) -> Any:
        """How much longer than its mark each special token is in the text: int64 [tokens]."""
        if not self.special_tokens_in_text:
            return None
        rows = starts.value_rowids()
        lengths = ends.values - starts.values
        pieces = tf.strings.substr(tf.gather(normalized, rows), starts.values, lengths)
        longer = tf.zeros_like(lengths)
        for token, mark in zip(SPECIAL_TOKENS, tables.SPECIAL_TOKEN_MARKS, strict=True):
            text = chr(mark)
            longer += tf.where(pieces == text, tf.constant(len(token), tf.int64) - lengths, 0)
        return longer


def _as_ragged(ids: Any) -> Any:
    if not isinstance(ids, (tf.Tensor, tf.RaggedTensor)):
        ids = tf.ragged.constant(ids, tf.int32) if not hasattr(ids, "shape") else tf.constant(ids)
    if isinstance(ids, tf.Tensor):
        ids = tf.RaggedTensor.from_tensor(ids)
    return tf.cast(ids, tf.int32)
