"""Cuts documents, `dupe_factor` times, into sequences of one text or of two texts.

A chunk is a run of consecutive sentences of one document. Each chunk is divided into
two texts, A and B. B is either the rest of the chunk or a random next sentence. A
random next sentence is text of a document that is drawn from the pool. The pool is a
set of segments (groups of whole documents, see `segments`). Without
next-sentence prediction, A is the complete chunk, and there is no B.

The first sentence of a chunk determines the end of the chunk, the end of A, whether B
is random, and the start of the next chunk. These values are therefore computed for all
sentences at once, as if a chunk started at each sentence. Then the chunks that are used
are found one after the other, from the first sentence on.

A span and a row both describe one truncated sequence before masking. A span contains
the places of the tokens in a flat array. A row contains the tokens themselves.

Source: google-research/bert `create_instances_from_document`, `truncate_seq_pair`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from bert_tf.masking import random_draws
from bert_tf.masking.algorithm import Vocabulary, row_dtype
from bert_tf.masking.random_draws import Purpose
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_creation.segments import Documents

_OTHER_DOCUMENT_TRIES = 10
_BATCH_ROWS = 8192
# The dtype of a span. A and B are ranges of the flat array of tokens. The key determines
# the random draws and the place in the shuffled order.
SPAN_DTYPE = np.dtype(
    [
        ("key", np.uint64),
        ("start_a", np.int64),  # index of the first token of A
        ("length_a", np.int64),  # number of tokens in A
        ("start_b", np.int64),  # index of the first token of B; 0 if there is no B
        ("length_b", np.int64),  # number of tokens in B; 0 if there is no B
        ("random_next", np.bool_),  # next-sentence label: True if B does not follow A
        ("trimmed", np.int64),  # number of tokens that truncation removed
    ]
)


def held_out(config: RecordsConfig, ids: np.ndarray) -> np.ndarray:
    """Draws for each document whether it is held out for evaluation: bool [D]."""
    keys = random_draws.derive_keys(
        random_draws.seed_key(config.random_seed), Purpose.DOCUMENT, ids
    )
    return random_draws.uniform(keys, Purpose.HELD_OUT) < config.eval_fraction


def pool_segments(
    config: RecordsConfig, segment: int, sizes: Sequence[int]
) -> list[int]:
    """Draws the pool of a segment: the segments that supply its random next sentences.

    At least two segments are drawn. Drawing ends when the drawn segments together
    contain `pool_bytes` of text, or when all segments are drawn. So if the corpus has
    at most `pool_bytes`, the pool is the complete corpus, as in google-research/bert.

    `sizes` has the bytes of text in each segment. The returned indices are ascending.
    """
    key = random_draws.derive_keys(
        random_draws.seed_key(config.random_seed), Purpose.SEGMENT, segment
    )
    order = np.argsort(
        random_draws.derive_keys(key, Purpose.SEGMENT, np.arange(len(sizes)))
    )
    enough = np.searchsorted(np.cumsum(np.asarray(sizes)[order]), config.pool_bytes) + 1
    return sorted(order[: max(enough, 2)].tolist())


def paired_rows(
    config: RecordsConfig, documents: Documents, pool_start: int, vocabulary: Vocabulary
) -> Iterator[np.ndarray]:
    """Cuts the documents of a segment into sequences, once in each of `dupe_factor` passes.

    Args:
        documents: The documents of the segment, then the documents of its pool.
        pool_start: Index of the first document of the pool.

    Yields:
        Batches of rows with dtype `row_dtype`, in ascending order of their keys.
    """
    if not pool_start:
        return
    passes = range(config.dupe_factor)
    spans = np.concatenate(
        [pair_documents(config, documents, pool_start, n) for n in passes]
    )
    spans = spans[np.argsort(spans["key"], kind="stable")]
    for start in range(0, len(spans), _BATCH_ROWS):
        batch = spans[start : start + _BATCH_ROWS]
        yield _copy_tokens(config, batch, documents.tokens, vocabulary)


def pair_documents(
    config: RecordsConfig, documents: Documents, pool_start: int, number: int
) -> np.ndarray:
    """Cuts the documents of a segment into sequences in one pass, with index `number`.

    `documents` and `pool_start` are the arguments of `paired_rows`. Returns the spans,
    with dtype `SPAN_DTYPE`, in the order of the text.
    """
    # Each random number depends only on the seed, the pass, the document and the
    # sentence.
    pass_key = random_draws.derive_keys(
        random_draws.seed_key(config.random_seed), Purpose.PASS, number
    )
    document_keys = random_draws.derive_keys(
        pass_key, Purpose.DOCUMENT, documents.ids[:pool_start]
    )
    first = documents.documents[:pool_start]
    last = documents.documents[1 : pool_start + 1]

    # The arrays below have an entry for each sentence at which a chunk could start.
    sentence = np.arange(last[-1])
    document: np.ndarray = np.repeat(np.arange(pool_start), last - first)
    index_in_document = sentence - first[document]
    keys = random_draws.derive_keys(
        document_keys[document], Purpose.SENTENCE, index_in_document
    )

    target = _target_lengths(config, document_keys)[document]
    if not config.paired:
        return _unpaired(config, documents, keys=keys, limit=target, end=last[document])

    # The chunk ends with the sentence that reaches the target length, or with its
    # document. A is one or more of its sentences, but not all, if there are several.
    end = np.searchsorted(documents.sentences, documents.sentences[sentence] + target)
    end = np.minimum(end, last[document])
    splits = end - sentence - 1  # number of sentences after which A can end
    end_a = (
        sentence + 1 + random_draws.integers(keys, Purpose.SPLIT, np.maximum(splits, 1))
    )

    # With a random next sentence, the next chunk starts after A, so that the rest of
    # this chunk is used again.
    is_random = (splits < 1) | (random_draws.uniform(keys, Purpose.NEXT) < 0.5)
    chunk = _chunk_starts(np.where(is_random, end_a, end))
    bounds = np.stack([chunk, end_a[chunk], end[chunk]])

    # From here on, there is an entry for each chunk.
    facts = (array[chunk] for array in (keys, document, target, is_random))
    return _add_next(config, documents, pool_start, bounds, *facts)


def _target_lengths(config: RecordsConfig, document_keys: np.ndarray) -> np.ndarray:
    """Draws the target length of the sequences of each document: int64 [D]."""
    longest = config.max_num_tokens
    is_short = (
        random_draws.uniform(document_keys, Purpose.IS_SHORT) < config.short_seq_prob
    )
    short: np.ndarray = 2 + random_draws.integers(
        document_keys, Purpose.SHORT_LENGTH, longest - 1
    )
    return np.where(is_short, short, longest)


def _chunk_starts(next_start: np.ndarray) -> np.ndarray:
    """Returns the starts of the used chunks: 0, next_start[0], next_start[next_start[0]], ..."""
    following = next_start.tolist()
    starts = []
    start = 0
    while start < len(following):
        starts.append(start)
        start = following[start]
    return np.array(starts, np.int64)


def _add_next(
    config: RecordsConfig,
    documents: Documents,
    pool_start: int,
    bounds: np.ndarray,
    keys: np.ndarray,
    document: np.ndarray,
    target: np.ndarray,
    is_random: np.ndarray,
) -> np.ndarray:
    """Adds B to each of E chunks, truncates the pairs, and returns them as spans.

    Args:
        bounds: int64 [3, E], three sentence indices for each chunk: the start of the
            chunk, the end of A, and the end of the chunk.
        keys: uint64 [E], the key of each chunk.
        document: int64 [E], for each chunk, the index of its document.
        target: int64 [E], target length of A and B together, in tokens.
        is_random: bool [E], whether B is a random next sentence.
    """
    start_a, start_b, end_b = documents.sentences[bounds]
    length_a = start_b - start_a
    label = is_random.copy()
    rows = np.flatnonzero(is_random)
    other = document[rows]
    pool = documents.ids[pool_start:]
    if len(pool):
        other = pool_start + _draw_other(config, keys[rows], documents.ids[other], pool)

    # B begins at a random sentence of the other document, and has as many tokens as A
    # leaves of the target length.
    other_start = documents.documents[other]
    other_end = documents.documents[other + 1]
    first = other_start + random_draws.integers(
        keys[rows], Purpose.OTHER_START, other_end - other_start
    )
    target_b = np.maximum(target[rows] - length_a[rows], 1)
    end = np.searchsorted(documents.sentences, documents.sentences[first] + target_b)
    end = np.minimum(end, other_end)
    start_b[rows], end_b[rows] = documents.sentences[first], documents.sentences[end]

    if config.same_document_label == "next":
        label[rows] = documents.ids[other] != documents.ids[document[rows]]
    return _truncate(
        config,
        keys,
        start_a=start_a,
        length_a=length_a,
        start_b=start_b,
        length_b=end_b - start_b,
        random_next=label,
    )


def _draw_other(
    config: RecordsConfig, keys: np.ndarray, self_id: np.ndarray, pool: np.ndarray
) -> np.ndarray:
    """Draws another document of the pool for each of E chunks: indices, int64 [E].

    A draw that gives the document of the chunk itself is repeated, but the tenth draw
    is kept. If `same_document_label` is "never", the document of the chunk is not
    drawn.

    Args:
        keys: uint64 [E], the key of each chunk.
        self_id: uint64 [E], the id of the document of each chunk.
        pool: uint64 [N], the ids of the documents of the pool, ascending.
    """
    if config.same_document_label == "never":
        # To exclude the document of the chunk, each drawn index that is not below the
        # index of that document in the pool is increased by 1.
        self_index = np.searchsorted(pool, self_id)
        inside = (self_index < len(pool)) & (
            pool[np.minimum(self_index, len(pool) - 1)] == self_id
        )
        others = np.maximum(len(pool) - inside, 1)
        index = random_draws.integers(keys, Purpose.OTHER_DOCUMENT, others)
        return np.minimum(index + (inside & (index >= self_index)), len(pool) - 1)
    drawn: np.ndarray = np.zeros(len(keys), np.int64)
    rows = np.arange(len(keys))
    for attempt in range(_OTHER_DOCUMENT_TRIES):
        attempt_keys = random_draws.derive_keys(
            keys[rows], Purpose.OTHER_DOCUMENT, attempt
        )
        drawn[rows] = random_draws.integers(
            attempt_keys, Purpose.OTHER_DOCUMENT, len(pool)
        )
        rows = rows[pool[drawn[rows]] == self_id[rows]]
    return drawn


def _truncate(
    config: RecordsConfig,
    keys: np.ndarray,
    start_a: np.ndarray,
    length_a: np.ndarray,
    start_b: np.ndarray,
    length_b: np.ndarray,
    random_next: np.ndarray,
) -> np.ndarray:
    """Truncates A and B to `max_num_tokens` together, and returns the spans.

    Tokens are removed one by one from the longer of A and B (from B if both are equally
    long). For each removal, a coin toss decides whether the first or the last token of
    that text is removed. So the lengths of A and B determine how many tokens A and B
    lose. If a text loses n tokens, the number of tokens lost at its start is the number
    of heads in n tosses.
    """
    excess = np.maximum(length_a + length_b - config.max_num_tokens, 0)
    uneven = np.minimum(excess, np.abs(length_a - length_b))
    from_a = np.where(length_a > length_b, uneven, 0) + (excess - uneven) // 2
    from_b = excess - from_a
    start_a = start_a + random_draws.count_heads(keys, Purpose.TRIM_A, from_a)
    start_b = start_b + random_draws.count_heads(keys, Purpose.TRIM_B, from_b)
    length_a = length_a - from_a
    length_b = length_b - from_b
    columns = (keys, start_a, length_a, start_b, length_b, random_next, excess)
    return np.rec.fromarrays(columns, dtype=SPAN_DTYPE)


def _unpaired(
    config: RecordsConfig,
    documents: Documents,
    keys: np.ndarray,
    limit: np.ndarray,
    end: np.ndarray,
) -> np.ndarray:
    """Creates spans without B, of as many complete sentences as fit, but at least one.

    Args:
        keys: uint64 [N], a key for each sentence.
        limit: int64 [N], for each sentence, the largest number of tokens of a sequence
            that starts at the sentence.
        end: int64 [N], for each sentence, the sentence index at which its document
            ends.
    """
    sentence = np.arange(len(keys))
    fits = (
        np.searchsorted(
            documents.sentences, documents.sentences[sentence] + limit, "right"
        )
        - 1
    )
    end = np.minimum(np.maximum(fits, sentence + 1), end)
    chunk = _chunk_starts(end)
    start = documents.sentences[chunk]
    length = documents.sentences[end[chunk]] - start
    zeros = np.zeros_like(length)
    return _truncate(
        config,
        keys[chunk],
        start_a=start,
        length_a=length,
        start_b=zeros,
        length_b=zeros,
        random_next=zeros,
    )


def _copy_tokens(
    config: RecordsConfig, spans: np.ndarray, tokens: np.ndarray, vocabulary: Vocabulary
) -> np.ndarray:
    """Copies the tokens of each span to a row: [CLS] A [SEP] B [SEP], then zeros."""
    out = np.zeros(len(spans), row_dtype(config.max_seq_length, vocabulary.size))
    for name in ("key", "trimmed", "length_a", "length_b", "random_next"):
        out[name] = spans[name]

    column: np.ndarray = np.arange(config.max_seq_length, dtype=np.int32)
    start_a = spans["start_a"]
    length_a = spans["length_a"]
    first_sep: np.ndarray = (length_a + 1).astype(np.int32)[:, None]
    # Column c holds token start_a + c - 1 in A, and start_b + c - (length_a + 2) in B.
    jump = (spans["start_b"] - length_a - 1 - start_a).astype(np.int32)[:, None]
    source = (column > first_sep) * jump
    source += column + (start_a - 1).astype(np.int32)[:, None]
    ids: np.ndarray = tokens.take(source, mode="clip")

    # [CLS], and [SEP] after A and after B. What follows is padding.
    rows = np.arange(len(ids))
    ids[:, 0] = vocabulary.cls_id
    ids[rows, length_a + 1] = vocabulary.sep_id
    end: np.ndarray = length_a + 2
    if config.paired:
        end = end + spans["length_b"] + 1
        ids[rows, end - 1] = vocabulary.sep_id
    ids *= column < end[:, None].astype(np.int32)
    out["ids"] = ids
    return out
