"""Splits text with BERT's tokenizer and counts words, in parallel, with bounded memory."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bert_tf.corpus.text_blocks import Block
from bert_tf.progress import Progress, map_in_order

LONGEST_WORD = 50
_MAX_DISTINCT_WORDS = 2_000_000
# A single thread sums the counts of all blocks. Summing the counts of a block takes an
# eighth of the time of counting its words, so more than 8 workers would wait for this
# thread.
_MAX_WORKERS = 8


@dataclasses.dataclass(frozen=True)
class WordCounts:
    """The word counts of a text, and information about lines that are not valid UTF-8.

    Attributes:
        words: Number of occurrences of each word of up to 50 characters.
        invalid_lines: Number of invalid lines. In input other than text files, each
            document counts as one line.
        first_invalid: The first invalid line, as "file:line"; "" if there is none.
    """

    words: collections.Counter[str]
    invalid_lines: int
    first_invalid: str

    @property
    def warning(self) -> str:
        """A warning for the user about lines that are not valid UTF-8; "" if there are none."""
        if not self.invalid_lines:
            return ""
        return (
            f"{self.invalid_lines:,} lines are not UTF-8, the first is "
            f"{self.first_invalid}. The invalid bytes were ignored."
        )


def count_words(
    blocks: Iterable[Block],
    total_bytes: int | None,
    do_lower_case: bool,
    num_workers: int,
) -> WordCounts:
    """Counts the words into which BERT's tokenizer splits a text before WordPiece.

    Memory is bounded: if there are more than 2 million distinct words, the rarest words
    are dropped. Bytes that are not valid UTF-8 are ignored, as in the tokenizer. At
    most 8 blocks are counted in parallel. `total_bytes` is for the progress display;
    None if it is not known.
    """
    words: collections.Counter[bytes] = collections.Counter()
    invalid = 0
    last = ""
    first_invalid = ""
    workers = min(num_workers, _MAX_WORKERS)
    with Progress("counting words", total_bytes, "bytes") as progress:
        counted = map_in_order(_counter(do_lower_case), blocks, workers)
        for block, block_counts, invalid_lines in counted:
            words.update(block_counts)
            _drop_rare(words)
            places = [f"{block.source}:{line}" for line in invalid_lines]
            # An invalid line that continues in the next block is counted once.
            invalid += len(places) - (places[:1] == [last])
            first_invalid = first_invalid or "".join(places[:1])
            last = places[-1] if places else last
            progress.update(len(block.text))
    return WordCounts(
        collections.Counter({word.decode(): number for word, number in words.items()}),
        invalid,
        first_invalid,
    )


# A block, the counts of its words, and the numbers of its lines that are not UTF-8.
_Counted = tuple[Block, Mapping[bytes, int], list[int]]


def _counter(do_lower_case: bool) -> Callable[[Block], _Counted]:
    """Returns a function that counts the words of a block."""
    import tensorflow as tf

    from bert_tf.tokenization import BasicTokenizer

    tokenizer = BasicTokenizer(do_lower_case)

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)], autograph=False)
    def count_text(text: Any) -> tuple[Any, Any]:
        words = tokenizer.words(tf.strings.split(text, "\n")).values
        short = tf.strings.length(words, "UTF8_CHAR") <= LONGEST_WORD
        words, _, counts = tf.unique_with_counts(tf.boolean_mask(words, short))
        return words, counts

    def count(block: Block) -> _Counted:
        words, counts = (tensor.numpy().tolist() for tensor in count_text(block.text))
        return block, dict(zip(words, counts, strict=True)), _invalid_lines(block)

    return count


def _invalid_lines(block: Block) -> list[int]:
    if _is_utf8(block.text):
        return []
    lines = enumerate(block.text.split(b"\n"), block.line)
    return [number for number, line in lines if not _is_utf8(line)]


def _is_utf8(text: bytes) -> bool:
    return text.decode(errors="ignore").encode() == text


def _drop_rare(counts: collections.Counter[bytes]) -> None:
    least = 1
    while len(counts) > _MAX_DISTINCT_WORDS:
        for word in [word for word, number in counts.items() if number <= least]:
            del counts[word]
        least += 1
