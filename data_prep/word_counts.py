"""Counts words as the tokenizer splits them, in parallel and in bounded memory.

Imports `progress`, `text_sources`, `tokenization`; TensorFlow inside functions.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import Any

from bert_tf.progress import Progress
from data_prep.text_sources import Block

LONGEST_WORD = 50
_MOST_DISTINCT_WORDS = 2_000_000
# Adding up the counts of a block, which is done in one thread, takes an eighth of counting them.
_MOST_WORKERS = 8


@dataclasses.dataclass(frozen=True)
class WordCounts:
    """What a text holds.

    Attributes:
        words: Occurrences of each word of up to 50 characters.
        invalid_lines: Number of lines that are not UTF-8; of records, where each is one line.
        first_invalid: Where the first of them is, as "file:line"; "" if there is none.
    """

    words: collections.Counter[str]
    invalid_lines: int = 0
    first_invalid: str = ""


def count_words(
    blocks: Iterable[Block], total_bytes: int | None, do_lower_case: bool, num_workers: int
) -> WordCounts:
    """Counts the words before WordPiece.

    Memory is bounded: beyond 2 million distinct words the rarest are forgotten. Bytes that are not
    UTF-8 are left out, as the tokenizer does.

    Args:
        blocks: The text.
        total_bytes: Size of the text, for the progress, or None.
        do_lower_case: Whether text is lower-cased and its accents dropped.
        num_workers: Blocks counted at the same time, at most 8.
    """
    words: collections.Counter[bytes] = collections.Counter()
    invalid, last, first_invalid = 0, "", ""
    with Progress("counting words", total_bytes, "bytes") as progress:
        for block, found, invalid_lines in _counted(blocks, do_lower_case, num_workers):
            for word, occurrences in found:
                words[word] += occurrences
            _forget_rare(words)
            places = [f"{block.source}:{line}" for line in invalid_lines]
            # A line may go on in the next block.
            invalid += len(places) - (places[:1] == [last])
            first_invalid = first_invalid or "".join(places[:1])
            last = places[-1] if places else last
            progress.update(len(block.text))
    decoded = collections.Counter(dict(_decoded(words)))
    return WordCounts(decoded, invalid, first_invalid)


def _counted(
    blocks: Iterable[Block], do_lower_case: bool, num_workers: int
) -> Iterator[tuple[Block, Iterable[tuple[bytes, int]], list[int]]]:
    """Each block with its words, how often it holds them, and its lines that are not UTF-8.

    In the order of the blocks; no more of them are held than are worked on, and as many again.
    """
    num_workers = min(num_workers, _MOST_WORKERS)
    count = _counter(do_lower_case)
    waiting: collections.deque[futures.Future[Any]] = collections.deque()
    with futures.ThreadPoolExecutor(num_workers) as pool:
        for block in blocks:
            waiting.append(pool.submit(count, block))
            if len(waiting) >= 2 * num_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _counter(do_lower_case: bool) -> Callable[[Block], Any]:
    import tensorflow as tf

    from bert_tf.tokenization import BasicTokenizer

    tokenizer = BasicTokenizer(do_lower_case)

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)], autograph=False)
    def count_text(text: Any) -> tuple[Any, Any]:
        words = tokenizer.words(tf.strings.split(text, "\n")).values
        short = tf.strings.length(words, "UTF8_CHAR") <= LONGEST_WORD
        words, _, counts = tf.unique_with_counts(tf.boolean_mask(words, short))
        return words, counts

    def count(block: Block) -> tuple[Block, Iterable[tuple[bytes, int]], list[int]]:
        words, counts = (each.numpy().tolist() for each in count_text(block.text))
        return block, zip(words, counts, strict=True), _invalid_lines(block)

    return count


def _invalid_lines(block: Block) -> list[int]:
    if _is_utf8(block.text):
        return []
    lines = enumerate(block.text.split(b"\n"), block.line)
    return [number for number, line in lines if not _is_utf8(line)]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _forget_rare(counts: collections.Counter[bytes]) -> None:
    least = 1
    while len(counts) > _MOST_DISTINCT_WORDS:
        for word in [word for word, number in counts.items() if number <= least]:
            del counts[word]
        least += 1


def _decoded(counts: dict[bytes, int]) -> Iterator[tuple[str, int]]:
    """Empties the counts meanwhile, so that the words are not held twice."""
    while counts:
        word, number = counts.popitem()
        yield word.decode(), number
