"""`BertTokenizer`: converts text to ids as the released FullTokenizer does."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.storage.weights import vocabulary_sha256
from bert_tf.tokenization import packing
from bert_tf.tokenization.basic_tokenizer import (
    BasicTokenizer,
    offsets_in_characters,
    offsets_in_original,
)
from bert_tf.tokenization.input_checks import ids_as_ragged, texts_as_batch
from bert_tf.tokenization.special_tokens import SpecialTokenFinder
from bert_tf.tokenization.vocabulary import (
    SPECIAL_TOKENS,
    check_vocabulary,
    known_casing,
    load_vocabulary,
)
from bert_tf.tokenization.wordpiece import WordPiece


def _on_cpu(method: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a method on the CPU and without AutoGraph. GPUs have no string operations.

    The decorated methods have no Python control flow for AutoGraph to convert, and
    tracing is three times as fast without AutoGraph.
    """

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with tf.device("cpu:0"):
            return method(*args, **kwargs)

    return tf.autograph.experimental.do_not_convert(run)


class BertTokenizer(tf.Module):
    r"""The released tokenizer, as a few fused operations over a batch of texts.

    The tokenizer works eagerly, in `tf.function` and in `tf.data`. If a model has the
    tokenizer as an attribute, saving the model also saves the tokenizer. Methods accept
    texts as a str, a list of str, a numpy array or a string tensor. For texts of rank 1
    (a batch) results are ragged [N, None]; for rank 0 (one text) results are [None].
    Bytes that are not valid UTF-8 are skipped, as in the released code.

    Args:
        vocab: Path of a `vocab.txt`, or the list of tokens.
        do_lower_case: Whether to lower-case and remove accents, as for the uncased
            models. None: the casing in the file next to the `vocab.txt`. If there is no
            such file: False, which is logged, if 20 or more entries, and at least 1 %,
            have upper-case letters; else True.
        special_tokens_in_text: Whether special tokens in a text, such as `[MASK]`, get
            their own ids (required for fill-mask) and separate words as spaces do. By
            default special tokens in a text are ordinary text.

    Attributes:
        vocabulary: The tokens, a list of str. The id of a token is its index, the last
            one if it occurs several times.
        do_lower_case: Whether the tokenizer lower-cases, a bool.
        special_tokens_in_text: The constructor argument.
        pad_id, unk_id, cls_id, sep_id, mask_id: Ids of the special tokens.
        vocabulary_sha256: Hexadecimal SHA-256 of the UTF-8 tokens, joined by \n.

    Raises:
        InputError: The vocabulary is not valid (see `load_vocabulary`), or
            `do_lower_case` differs from the casing in the file next to the `vocab.txt`.

    Source: google-research/bert `tokenization.FullTokenizer`.
    """

    def __init__(
        self,
        vocab: str | os.PathLike[str] | Sequence[str],
        do_lower_case: bool | None = None,
        special_tokens_in_text: bool = False,
    ) -> None:
        super().__init__(name="bert_tokenizer")
        if do_lower_case not in (True, False, None):
            raise InputError(
                f"do_lower_case must be True or False. Received: {do_lower_case!r}."
            )

        # The vocabulary, its casing and its special tokens.
        source: str | list[str]
        if isinstance(vocab, (str, os.PathLike)):
            source = os.fspath(vocab)
            tokens = load_vocabulary(source)
        else:
            tokens = [
                str(token) if isinstance(token, str) else token for token in vocab
            ]
            check_vocabulary(tokens)
            source = tokens
        self._tokens = tuple(tokens)
        self._detokenized = [
            "" if token in ("", "[PAD]", "[CLS]", "[SEP]") else f" {token}"
            for token in tokens
        ]
        self.do_lower_case = known_casing(source, do_lower_case) is not False
        self.special_tokens_in_text = special_tokens_in_text
        self.vocabulary_sha256 = vocabulary_sha256(tokens)
        ids = [tokens.index(token) for token in SPECIAL_TOKENS]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids

        # In texts, placeholders take the place of the special tokens.
        self._special = SpecialTokenFinder(tokens) if special_tokens_in_text else None
        if self._special:
            placeholders = self._special.placeholders.values()
            for index, placeholder in zip(ids, placeholders, strict=True):
                tokens[index] = placeholder

        self._wordpiece = WordPiece(tokens, self.unk_id)
        self._basic = BasicTokenizer(self.do_lower_case, self._special)

    @property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids."""
        return list(self._tokens)

    @property
    def vocab_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return len(self._tokens)

    @_on_cpu
    def tokenize(self, texts: Any) -> Any:
        """Returns the ids of the WordPiece tokens, without [CLS] and [SEP].

        Args:
            texts: string [N], or one text.

        Returns:
            Ragged int32 [N, None]; for one text int32 [None].

        Raises:
            TypeError, ValueError: `texts` are not texts.
        """
        texts, single = texts_as_batch(texts)
        ids, _, _ = self._wordpiece(self._basic.normalize(texts))
        return ids.values if single else ids

    @_on_cpu
    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """Returns the ids of the tokens, and their spans (start and end) in the texts.

        Args:
            texts: string [N], or one text.

        Returns:
            Ids (int32), starts and exclusive ends (int64, in bytes of the texts): three
            ragged tensors [N, None]; for one text [None]. A span also covers removed
            characters that follow the token, such as accents. `in_characters` converts
            offsets in bytes to offsets in characters.

        Raises:
            TypeError, ValueError: `texts` are not texts.
        """
        texts, single = texts_as_batch(texts)
        normalized, origins = self._basic.normalize_with_offsets(texts)
        ids, starts, ends = self._wordpiece(normalized)
        pieces = _token_strings(normalized, starts, ends) if self._special else None

        starts, ends = offsets_in_original(texts, origins, starts, ends)
        if self._special:
            spans = self._special.widen_spans(pieces, starts.values, ends.values)
            starts, ends = map(ids.with_values, spans)

        return (
            (ids.values, starts.values, ends.values) if single else (ids, starts, ends)
        )

    @_on_cpu
    def in_characters(self, texts: Any, byte_offsets: Any) -> Any:
        """Converts starts or ends of `tokenize_with_offsets` from bytes to characters.

        Args:
            texts: string [N], UTF-8, or one text.
            byte_offsets: Offsets in bytes, ragged int [N, None]; for one text int
                [None].

        Returns:
            Offsets in characters, int64, with the shape of `byte_offsets`.

        Raises:
            InputError: The offsets are not integers.
            TypeError, ValueError: `texts` are not texts.
        """
        texts, single = texts_as_batch(texts)
        byte_offsets, _ = ids_as_ragged(byte_offsets, tf.int64)
        result = offsets_in_characters(texts, byte_offsets)
        return result.values if single else result

    @_on_cpu
    def tokenize_in_lite(self, texts: Any) -> Any:
        """Tokenizes with only the operations that TFLite and its tensorflow_text have.

        The ids may differ from those of `tokenize` for four kinds of text: bytes that
        are not valid UTF-8; a capital sigma at the end of a word; words of more than
        200 characters, which become [UNK] only if they have more than 800 bytes; and
        the few combining characters that canonical ordering moves and normalization
        does not remove as accents.

        Args:
            texts: string [N], or one text.

        Returns:
            Ragged int32 [N, None]; for one text int32 [None].

        Raises:
            InputError: `special_tokens_in_text` is true. TFLite has no operation that
                searches text.
        """
        if self._special:
            raise InputError(
                "TFLite has no operation that finds special tokens in text. Received: "
                "a tokenizer with special_tokens_in_text=True. Create it without "
                "special_tokens_in_text, or feed ids to the model."
            )
        texts, single = texts_as_batch(texts)
        ids = self._wordpiece.with_byte_limit(self._basic.normalize_characters(texts))
        return ids.values if single else ids

    @_on_cpu
    def words(self, texts: Any) -> Any:
        """Normalizes texts, and splits them into words at spaces and punctuation.

        Args:
            texts: string [N], or one text.

        Returns:
            Ragged string [N, None]; for one text string [None].

        Raises:
            TypeError, ValueError: `texts` are not texts.
        """
        texts, single = texts_as_batch(texts)
        words = self._basic.words(texts)
        return words.values if single else words

    @_on_cpu
    def encode(
        self,
        texts_a: Any,
        texts_b: Any = None,
        seq_length: int | None = 128,
        trim_to_longest: bool = False,
    ) -> dict[str, Any]:
        """Tokenizes texts or pairs of texts, and packs them into inputs of the model.

        Args:
            texts_a: string [B], or one text.
            texts_b: The second text of each pair, in the form of `texts_a`, or None.
            seq_length: Length S to which examples are truncated and padded. None pads
                to the longest example of the batch without truncation.
            trim_to_longest: Whether to reduce S to the length of the longest example in
                the batch after truncation.

        Returns:
            `input_ids`, `input_mask` and `segment_ids` as `pack` returns them, int32
            [B, S]; for one text or pair [S].

        Raises:
            InputError: The numbers of texts differ, or `seq_length` is not valid (see
                `pack`).
            TypeError, ValueError: A value is not a text.
        """
        ids_a = self.tokenize(texts_a)
        ids_b = None if texts_b is None else self.tokenize(texts_b)
        return self.pack(ids_a, ids_b, seq_length, trim_to_longest)

    @_on_cpu
    def pack(
        self,
        ids_a: Any,
        ids_b: Any = None,
        seq_length: int | None = 128,
        trim_to_longest: bool = False,
    ) -> dict[str, Any]:
        """Packs ids as [CLS] A [SEP], or [CLS] A [SEP] B [SEP], with padding.

        Truncation removes tokens one by one from the end of the longer text. If both
        texts are equally long, a token of B is removed. The released
        `_truncate_seq_pair` of the classifiers does the same.

        Args:
            ids_a: Ids [B, None] as a ragged tensor, a list of lists, or a dense tensor
                without padding; for one text [None]. `[]` is one text without tokens.
            ids_b: Ids of the second text of each pair, in the form of `ids_a`, or None.
            seq_length: Length S to which examples are truncated and padded. None pads
                to the longest example of the batch without truncation.
            trim_to_longest: Whether to reduce S to the length of the longest example in
                the batch after truncation.

        Returns:
            `input_ids`, `input_mask` (1 for tokens, 0 for padding) and `segment_ids` (1
            for B and its [SEP], 0 elsewhere), int32 [B, S]; for one text or pair [S].

        Raises:
            InputError: `seq_length` is too short for the special tokens, the ids are
                not integers, or the numbers of first and second texts differ. If these
                numbers are known only when a graph runs, the error is
                tf.errors.InvalidArgumentError.
        """
        ids_a, single = ids_as_ragged(ids_a)
        if ids_b is not None:
            ids_b, single_b = ids_as_ragged(ids_b)
            ids_a, ids_b = packing.check_pairs(ids_a, ids_b, single, single_b)

        special_ids = (self.cls_id, self.sep_id, self.pad_id)
        packed = packing.pack(
            ids_a,
            ids_b,
            seq_length=seq_length,
            special_ids=special_ids,
            trim_to_longest=trim_to_longest,
        )
        return {name: value[0] if single else value for name, value in packed.items()}

    @_on_cpu
    def detokenize(self, ids: Any) -> Any:
        """Joins tokens into words, and words into texts with spaces between the words.

        [PAD], [CLS] and [SEP] are left out.

        Args:
            ids: int [N, None], ragged or dense; for one text [None]. `[]` is one text
                without tokens.

        Returns:
            string [N]; for one text a scalar string.

        Raises:
            InputError: The ids are not integers.
            tf.errors.InvalidArgumentError: An id is not in the vocabulary.
        """
        ids, single = ids_as_ragged(ids, tf.int64)
        tokens = tf.gather(tf.constant(self._detokenized), ids.values)

        # Each token begins with a space; "##" joins a token to the one before it.
        joined = tf.strings.reduce_join(ids.with_values(tokens), axis=-1)
        texts = tf.strings.strip(tf.strings.regex_replace(joined, " ##", ""))
        return texts[0] if single else texts


def _token_strings(texts: Any, starts: Any, ends: Any) -> Any:
    """Returns the part of the normalized texts that each token covers: string [tokens]."""
    token_texts = tf.gather(texts, starts.value_rowids())
    return tf.strings.substr(token_texts, starts.values, ends.values - starts.values)
