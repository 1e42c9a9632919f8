"""`BertTokenizer`: text to ids in the graph, equal to the released FullTokenizer.

Imports `vocabulary`, `tables`, `rare`, `wordpiece`, `packing`; TensorFlow and tensorflow_text.
"""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf import files
from bert_tf.tokenization import packing, rare, tables
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, check_vocabulary, load_vocabulary
from bert_tf.tokenization.wordpiece import WordPiece

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# ASCII punctuation and CJK: the normalizer leaves it to the WordPiece operation to isolate them.
_ISOLATED = r"([!-/:-@\[-`{-~" + "".join(f"\\x{{{a:X}}}-\\x{{{b:X}}}" for a, b in tables.CJK) + "])"


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
        vocab: str | Sequence[str],
        do_lower_case: bool = True,
        special_tokens_in_text: bool = False,
    ) -> None:
        super().__init__(name="bert_tokenizer")
        if isinstance(vocab, str):
            tokens = load_vocabulary(vocab)
        else:
            tokens = list(vocab)
            check_vocabulary(tokens)
        self._tokens = tuple(tokens)
        self.do_lower_case = do_lower_case
        self.special_tokens_in_text = special_tokens_in_text
        self.vocabulary_sha256 = files.sha256("\n".join(tokens).encode())
        ids = [tokens.index(token) for token in SPECIAL_TOKENS]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        if special_tokens_in_text:
            for index, mark in zip(ids, tables.SPECIAL_TOKEN_MARKS, strict=True):
                tokens[index] = chr(mark)
        self._wordpiece = WordPiece(tokens, self.unk_id)
        self._ordinary = rare.ordinary_text(do_lower_case)
        normalizer = tables.load()["uncased" if do_lower_case else "cased"]
        with tf.init_scope():
            self._normalizer = tf.constant(normalizer)

    @property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids."""
        return list(self._tokens)

    @property
    def vocab_size(self) -> int:
        """Number of entries of the vocabulary."""
        return len(self._tokens)

    def tokenize(self, texts: Any) -> Any:
        """Ids of the WordPiece tokens, without special tokens.

        Args:
            texts: Texts, [N] or one.

        Returns:
            Ragged int32 [N, None]; for one text int32 [None].
        """
        texts, single = _as_batch(texts)
        ids, _, _ = self._wordpiece(self._normalize(self._prepare(texts)))
        return ids.values if single else ids

    def words(self, texts: Any) -> Any:
        """The words before WordPiece: normalized, and split at blanks and punctuation.

        Args:
            texts: Texts, [N] or one.

        Returns:
            Ragged string [N, None]; for one text string [None].
        """
        texts, single = _as_batch(texts)
        normalized = self._normalize(self._prepare(texts))
        words = tf.strings.split(tf.strings.regex_replace(normalized, _ISOLATED, r" \1 "))
        return words.values if single else words

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

    def _prepare(self, texts: Any) -> Any:
        """Rewrites the batch if any of its texts holds one of the rare cases."""
        if self.special_tokens_in_text:
            texts = _mark_special_tokens(texts)
        return tf.cond(
            tf.reduce_all(tf.strings.regex_full_match(texts, self._ordinary)),
            lambda: texts,
            lambda: rare.prepare(texts, self.do_lower_case),
        )

    def _normalize(self, texts: Any) -> Any:
        return tf_text.FastBertNormalizer(model_buffer=self._normalizer).normalize(texts)


def _as_batch(texts: Any) -> tuple[Any, bool]:
    """String [N], and whether a single text was given."""
    try:
        texts = tf.convert_to_tensor(texts, tf.string)
    except ValueError:  # TensorFlow's word for a str that is not valid Unicode
        texts = tf.constant(_without_surrogates(texts), tf.string)
    if texts.shape.rank == 0:
        return texts[None], True
    return tf.ensure_shape(texts, [None]), False


def _without_surrogates(texts: Any) -> Any:
    """Half a surrogate pair, not part of UTF-8, becomes another character that has no meaning."""
    if isinstance(texts, str):
        return _LONE_SURROGATE.sub("\uffff", texts)
    return texts if isinstance(texts, bytes) else [_without_surrogates(text) for text in texts]


def _as_ragged(ids: Any) -> Any:
    if not isinstance(ids, (tf.Tensor, tf.RaggedTensor)):
        ids = tf.ragged.constant(ids, tf.int32) if not hasattr(ids, "shape") else tf.constant(ids)
    if isinstance(ids, tf.Tensor):
        ids = tf.RaggedTensor.from_tensor(ids)
    return tf.cast(ids, tf.int32)


def _mark_special_tokens(texts: Any) -> Any:
    """Puts a private character, which the vocabulary knows, and blanks for each special token."""
    marks = "".join(map(chr, tables.SPECIAL_TOKEN_MARKS))
    texts = tf.strings.regex_replace(texts, f"[{marks}]", "\U0010ffff")
    for token, mark in zip(SPECIAL_TOKENS, marks, strict=True):
        blanks = " " * (len(token) - len(mark.encode()))
        texts = tf.strings.regex_replace(texts, re.escape(token), mark + blanks)
    return texts
