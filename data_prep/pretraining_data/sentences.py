"""Reads the sentences of a segment, block by block.

Only one block is in memory at a time.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_tf.data_prep.corpus.formats import CHUNK_BYTES, read_json_texts, read_lines
from bert_tf.data_prep.pretraining_data.segments import Segment, tfds_split
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig

# A block has two parts: N sentences that are not empty, and int64 [N], the document
# number of each sentence. The document numbers are in non-decreasing order.
Block = tuple[list[str], np.ndarray]
# White space of several bytes, such as U+00A0 and U+3000.
_LONG_SPACE = re.compile(r"[^\S\x00-\x7f]")


def read(config: RecordsConfig, segment: Segment) -> Iterator[Block]:
    """Yields blocks of the sentences of a segment, with their document numbers.

    Args:
        config: The name of the JSON key or feature that contains the text
            (`text_feature`), and whether to split paragraphs into sentences.
        segment: A segment that `segments.cut` returned.

    Raises:
        InputError: A line is not valid UTF-8, or a line of a JSON file is not an object
            with a string under the key that `text_feature` names.
    """
    number = 0
    for lines in _lines(config, segment):
        blank = np.array([not line for line in lines])
        documents = number + np.cumsum(blank)
        number = int(documents[-1])
        sentences, documents = [line for line in lines if line], documents[~blank]
        if config.split_sentences:
            sentences, documents = split_sentences(sentences, documents)
        yield sentences, documents


def split_sentences(
    paragraphs: Sequence[str], documents: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Splits paragraphs into sentences with tensorflow-text's state-based breaker.

    Args:
        paragraphs: N paragraphs.
        documents: int64 [N], the document number of each paragraph.

    Returns:
        The sentences, and the document number of each sentence.
    """
    if not paragraphs:
        return [], documents
    import tensorflow_text as tf_text

    # After the end of a sentence, the breaker would cut inside of a space of several
    # bytes.
    spaced = [_LONG_SPACE.sub(" ", paragraph) for paragraph in paragraphs]
    sentences = tf_text.StateBasedSentenceBreaker().break_sentences(spaced)
    texts = [text.decode("utf-8").strip() for text in sentences.flat_values.numpy()]
    numbers: np.ndarray = np.repeat(documents, sentences.row_lengths().numpy())
    keep = np.array([bool(text) for text in texts])
    return [text for text in texts if text], numbers[keep]


def _lines(config: RecordsConfig, segment: Segment) -> Iterator[list[str]]:
    """Yields blocks of one or more stripped lines. An empty line ends a document."""
    for piece in segment:
        file = piece.file
        if file.format == "text":
            for lines, _ in read_lines(file.path, piece.start, piece.end, file.source):
                yield [line.strip() for line in lines.removesuffix("\n").split("\n")]
        elif file.format == "tfds":
            texts = tfds_split(config).texts(f"[{piece.start}:{piece.end}]")
            yield from _blocks(text.decode("utf-8", "replace") for text in texts)
        else:
            span = piece.start, piece.end
            yield from _blocks(
                read_json_texts(file.path, config.text_feature, *span, file.source)
            )
        if config.documents_end_at_files:
            yield [""]


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Groups the non-blank lines of texts into blocks.

    Adds "" after each text (a document).
    """
    lines: list[str] = []
    size = 0
    for text in texts:
        lines += [line for line in map(str.strip, text.split("\n")) if line]
        lines.append("")
        size += len(text)
        if size >= CHUNK_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines
