"""From documents to rows: unmasked sequences, paired as released.

Every sentence could be the start of a chunk. What a chunk that starts there would be (its end,
where A ends, whether B is random, where the next chunk starts) depends on that sentence alone, so
all of it is computed for all sentences at once; the chunks that really occur are those on the way
from the first sentence to the last.

Imports numpy only. Source: google-research/bert `create_instances_from_document`,
`truncate_seq_pair`.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from data_prep.pretraining_data import randomness
from data_prep.pretraining_data.corpus import Documents
from data_prep.pretraining_data.randomness import Draw
from data_prep.pretraining_data.settings import RecordsConfig

_OTHER_DOCUMENT_TRIES = 10
_BATCH_ROWS = 8192


@dataclasses.dataclass(frozen=True)
class Spans:
    """E sequences as places in a flat array of tokens, after truncation.

    Attributes:
        keys: uint64 [E], the name of the sequence in the random streams, and its place in the
            shuffled order.
        start_a: int64 [E], first token of A.
        length_a: int64 [E].
        start_b: int64 [E], first token of B; 0 where there is no B.
        length_b: int64 [E].
        random_next: bool [E], the label: B does not follow A.
        trimmed: int64 [E], tokens that truncation took away.
    """

    keys: np.ndarray
    start_a: np.ndarray
    length_a: np.ndarray
    start_b: np.ndarray
    length_b: np.ndarray
    random_next: np.ndarray
    trimmed: np.ndarray

    def take(self, index: np.ndarray) -> "Spans":
        """The sequences at these indices."""
        return Spans(*(getattr(self, f.name)[index] for f in dataclasses.fields(self)))

    @staticmethod
    def joined(parts: list["Spans"]) -> "Spans":
        """All sequences of the parts."""
        names = [field.name for field in dataclasses.fields(Spans)]
        return Spans(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def row_dtype(config: RecordsConfig, vocab_size: int) -> np.dtype:
    """One unmasked sequence: key, lengths, label, and `ids` [S], padded with 0."""
    token = np.uint16 if vocab_size <= 1 << 16 else np.int32
    return np.dtype(
        [
            ("key", np.uint64),
            ("trimmed", np.int32),
            ("length_a", np.uint16),
            ("length_b", np.uint16),
            ("random_next", np.uint16),
            ("ids", token, (config.max_seq_length,)),
        ]
    )


def held_out(config: RecordsConfig, ids: np.ndarray) -> np.ndarray:
    """Which documents are held out, bool [D]; a draw of its own for each."""
    keys = randomness.derive(randomness.seed_key(config.random_seed), Draw.DOCUMENT, ids)
    return randomness.uniform(keys, Draw.HELD_OUT) < config.eval_fraction


def pool_of(config: RecordsConfig, segment: int, sizes: Sequence[int]) -> list[int]:
    """The segments that random next sentences of a segment come from, ascending.

    Segments are drawn, anew for each segment, until they hold `pool_bytes` or all are drawn: up to
    that size the pool is the whole corpus, as released. Two are drawn at least.

    Args:
        config: Seed and size of the pool.
        segment: Which one they are drawn for, from 0.
        sizes: Bytes of text in each segment.
    """
    key = randomness.derive(randomness.seed_key(config.random_seed), Draw.SEGMENT, segment)
    order = np.argsort(randomness.derive(key, Draw.SEGMENT, np.arange(len(sizes))))
    enough = np.searchsorted(np.cumsum(np.asarray(sizes)[order]), config.pool_bytes) + 1
    return sorted(order[: max(int(enough), 2)].tolist())


def rows(
    config: RecordsConfig,
    documents: Documents,
    own: int,
    cls_id: int,
    sep_id: int,
    vocab_size: int,
) -> Iterator[np.ndarray]:
    """All sequences of a segment in all passes, in batches, in ascending order of their keys.

    Args:
        config: The procedure.
        documents: First the documents to cut, then those that random next sentences come from.
        own: How many of them are to be cut.
        cls_id: Id of [CLS].
        sep_id: Id of [SEP].
        vocab_size: Size of the vocabulary, V.

    Yields:
        Arrays of `row_dtype`.
    """
    if not own:
        return
    spans = Spans.joined(
        [pair(config, documents, own, number) for number in range(config.dupe_factor)]
    )
    spans = spans.take(np.argsort(spans.keys, kind="stable"))
    dtype = row_dtype(config, vocab_size)
    for start in range(0, len(spans.keys), _BATCH_ROWS):
        batch = spans.take(np.arange(start, min(start + _BATCH_ROWS, len(spans.keys))))
        yield _gather(config, batch, documents.tokens, dtype, cls_id, sep_id)


def pair(config: RecordsConfig, documents: Documents, own: int, number: int) -> Spans:
    """One pass over a segment.

    Args:
        config: The procedure.
        documents: First the `own` documents to cut, then the pool.
        own: How many of them are to be cut.
        number: Which pass it is, from 0.
    """
    pass_key = randomness.derive(randomness.seed_key(config.random_seed), Draw.PASS, number)
    document_keys = randomness.derive(pass_key, Draw.DOCUMENT, documents.ids[:own])
    first, last = documents.documents[:own], documents.documents[1 : own + 1]
    sentence = np.arange(last[-1])
    document: np.ndarray = np.repeat(np.arange(own), last - first)
    keys = randomness.derive(document_keys[document], Draw.SENTENCE, sentence - first[document])
    target = _targets(config, document_keys)[document]
    if not config.paired:
        return _single(config, documents, keys, sentence, target, last[document])
    end = np.searchsorted(documents.sentences, documents.sentences[sentence] + target)
    end = np.minimum(end, last[document])
    several = end - sentence > 1
    end_a = sentence + 1 + randomness.integers(keys, Draw.SPLIT, np.maximum(end - sentence - 1, 1))
    is_random = ~several | (randomness.uniform(keys, Draw.NEXT) < 0.5)
    chunk = _walk(np.where(is_random, end_a, end))
    return _with_next(
        config,
        documents,
        own,
        keys[chunk],
        document[chunk],
        target[chunk],
        np.stack([chunk, end_a[chunk], end[chunk]]),
        is_random[chunk],
    )


def _targets(config: RecordsConfig, document_keys: np.ndarray) -> np.ndarray:
    """int64 [D]: the length each document is cut to in this pass, drawn once a document."""
    longest = config.max_num_tokens
    short = randomness.uniform(document_keys, Draw.IS_SHORT) < config.short_seq_prob
    drawn: np.ndarray = 2 + randomness.integers(document_keys, Draw.SHORT_LENGTH, longest - 1)
    return np.where(short, drawn, longest)


def _walk(following: np.ndarray) -> np.ndarray:
    """The sentences that start a chunk: 0, following[0], ... up to the end."""
    steps, visited, at = following.tolist(), [], 0
    while at < len(steps):
        visited.append(at)
        at = steps[at]
    return np.array(visited, np.int64)


def _with_next(
    config: RecordsConfig,
    documents: Documents,
    own: int,
    keys: np.ndarray,
    document: np.ndarray,
    target: np.ndarray,
    chunk: np.ndarray,
    is_random: np.ndarray,
) -> Spans:
    """Gives each chunk its B and truncates; `chunk` is [3, E]: start of A, end of A, end."""
    start_a, start_b, end_b = documents.sentences[chunk]
    length_a, label = start_b - start_a, is_random.copy()
    rows = np.flatnonzero(is_random)
    other = _other_documents(config, documents, own, keys[rows], document[rows])
    size = documents.documents[other + 1] - documents.documents[other]
    first = documents.documents[other] + randomness.integers(keys[rows], Draw.OTHER_START, size)
    wanted = np.maximum(target[rows] - length_a[rows], 1)
    end = np.searchsorted(documents.sentences, documents.sentences[first] + wanted)
    end = np.minimum(end, documents.documents[other + 1])
    start_b[rows], end_b[rows] = documents.sentences[first], documents.sentences[end]
    if config.same_document_label == "next":
        label[rows] = documents.ids[other] != documents.ids[document[rows]]
    return _truncate(config, keys, start_a, length_a, start_b, end_b - start_b, label)


def _other_documents(
    config: RecordsConfig, documents: Documents, own: int, keys: np.ndarray, document: np.ndarray
) -> np.ndarray:
    """A document of the pool for each key, another than its own in up to ten tries."""
    pool = documents.ids[own:]
    if not len(pool):
        return document
    self_id = documents.ids[document]
    if config.same_document_label == "never":
        # Leave the own document out: draw from one less and step over it.
        place = np.searchsorted(pool, self_id)
        inside = (place < len(pool)) & (pool[np.minimum(place, len(pool) - 1)] == self_id)
        others = np.maximum(len(pool) - inside, 1)
        index = randomness.integers(keys, Draw.OTHER_DOCUMENT, others)
        return own + np.minimum(index + (inside & (index >= place)), len(pool) - 1)
    drawn: np.ndarray = np.zeros(len(keys), np.int64)
    rows = np.arange(len(keys))
    for number in range(_OTHER_DOCUMENT_TRIES):
        again = randomness.derive(keys[rows], Draw.OTHER_DOCUMENT, number)
        drawn[rows] = randomness.integers(again, Draw.OTHER_DOCUMENT, len(pool))
        rows = rows[pool[drawn[rows]] == self_id[rows]]
    return own + drawn


def _truncate(
    config: RecordsConfig,
    keys: np.ndarray,
    start_a: np.ndarray,
    length_a: np.ndarray,
    start_b: np.ndarray,
    length_b: np.ndarray,
    random_next: np.ndarray,
) -> Spans:
    """Trims the longer of A and B, B on a tie, token by token, at a random end each time.

    How many tokens each loses follows from the lengths; how many of them in front is the number of
    heads in as many tosses.
    """
    excess = np.maximum(length_a + length_b - config.max_num_tokens, 0)
    uneven = np.minimum(excess, np.abs(length_a - length_b))
    from_a = np.where(length_a > length_b, uneven, 0) + (excess - uneven) // 2
    from_b = excess - from_a
    return Spans(
        keys,
        start_a + randomness.heads(keys, Draw.TRIM_A, from_a),
        length_a - from_a,
        start_b + randomness.heads(keys, Draw.TRIM_B, from_b),
        length_b - from_b,
        random_next,
        excess,
    )


def _single(
    config: RecordsConfig,
    documents: Documents,
    keys: np.ndarray,
    sentence: np.ndarray,
    target: np.ndarray,
    last: np.ndarray,
) -> Spans:
    """Sequences of one part: as many whole sentences of a document as fit, at least one."""
    fits = np.searchsorted(documents.sentences, documents.sentences[sentence] + target, "right") - 1
    end = np.minimum(np.maximum(fits, sentence + 1), last)
    chunk = _walk(end)
    start = documents.sentences[chunk]
    length = documents.sentences[end[chunk]] - start
    none: np.ndarray = np.zeros(len(chunk), np.int64)
    return _truncate(config, keys[chunk], start, length, none, none, np.zeros(len(chunk), bool))


def _gather(
    config: RecordsConfig,
    spans: Spans,
    tokens: np.ndarray,
    dtype: np.dtype,
    cls_id: int,
    sep_id: int,
) -> np.ndarray:
    """Copies the tokens together: [CLS] A [SEP] B [SEP], then 0."""
    out = np.zeros(len(spans.keys), dtype)
    for name in ("key", "trimmed", "length_a", "length_b", "random_next"):
        out[name] = getattr(spans, "keys" if name == "key" else name)
    column: np.ndarray = np.arange(config.max_seq_length, dtype=np.int32)
    first_sep: np.ndarray = (spans.length_a + 1).astype(np.int32)[:, None]
    # Token of column c: start_a + c - 1 in A, start_b + c - (length_a + 2) in B.
    jump = (spans.start_b - spans.length_a - 1 - spans.start_a).astype(np.int32)[:, None]
    source = (column > first_sep) * jump
    source += column + (spans.start_a - 1).astype(np.int32)[:, None]
    ids: np.ndarray = tokens.take(source, mode="clip")
    rows = np.arange(len(ids))
    ids[:, 0] = cls_id
    ids[rows, spans.length_a + 1] = sep_id
    end: np.ndarray = spans.length_a + 2
    if config.paired:
        end = end + spans.length_b + 1
        ids[rows, end - 1] = sep_id
    ids *= column < end[:, None].astype(np.int32)
    out["ids"] = ids
    return out
