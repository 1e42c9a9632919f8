"""A transcription of google-research/bert's rules for pretraining data in plain Python.

This module follows the description of create_pretraining_data.py and imports nothing
from this project. Documents are lists of sentences; sentences are lists of tokens;
tokens are any hashable values.
"""

import itertools
import random


def truncate(tokens_a, tokens_b, max_num_tokens, rng):
    while len(tokens_a) + len(tokens_b) > max_num_tokens:
        longer = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def pairs_of_document(documents, number, max_seq_length, short_seq_prob, rng):
    """Lists (tokens_a, tokens_b, is_random_next) for one document in one pass."""
    document = documents[number]
    max_num_tokens = max_seq_length - 3
    target = max_num_tokens
    if rng.random() < short_seq_prob:
        target = rng.randint(2, max_num_tokens)
    found, chunk, length, i = [], [], 0, 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            a_end = 1 if len(chunk) < 2 else rng.randint(1, len(chunk) - 1)
            tokens_a = [token for sentence in chunk[:a_end] for token in sentence]
            tokens_b = []
            is_random_next = len(chunk) == 1 or rng.random() < 0.5
            if is_random_next:
                wanted = target - len(tokens_a)
                for _ in range(10):
                    other = rng.randint(0, len(documents) - 1)
                    if other != number:
                        break
                start = rng.randint(0, len(documents[other]) - 1)
                for sentence in documents[other][start:]:
                    tokens_b.extend(sentence)
                    if len(tokens_b) >= wanted:
                        break
                i -= len(chunk) - a_end
            else:
                tokens_b = [token for sentence in chunk[a_end:] for token in sentence]
            truncate(tokens_a, tokens_b, max_num_tokens, rng)
            found.append((tokens_a, tokens_b, is_random_next))
            chunk, length = [], 0
        i += 1
    return found


def mask(
    tokens,
    specials,
    continues,
    vocabulary,
    mask_token,
    rng,
    max_predictions,
    prob,
    whole,
):
    """Returns all tokens after masking, masked positions, and original tokens there."""
    words = []
    for i, token in enumerate(tokens):
        if token in specials:
            continue
        if whole and words and token in continues:
            words[-1].append(i)
        else:
            words.append([i])
    rng.shuffle(words)
    output = list(tokens)
    wanted = min(max_predictions, max(1, round(len(tokens) * prob)))
    chosen = []
    for word in words:
        if len(chosen) >= wanted:
            break
        if len(chosen) + len(word) > wanted:
            continue
        for i in word:
            if rng.random() < 0.8:
                output[i] = mask_token
            elif rng.random() >= 0.5:
                output[i] = vocabulary[rng.randint(0, len(vocabulary) - 1)]
            chosen.append(i)
    chosen.sort()
    return output, chosen, [tokens[i] for i in chosen]


def ngram_positions(words, max_ngram_size, wanted, rng):
    """Chooses n-grams by the rule of the Model Garden.

    Returns the positions of each n-gram.

    Each item of `words` has the token positions of one word, in ascending order.
    """
    ngrams = {
        n: [
            words[i : i + n]
            for i in range(len(words) - n + 1)
            if all(a[-1] + 1 == b[0] for a, b in itertools.pairwise(words[i : i + n]))
        ]
        for n in range(1, max_ngram_size + 1)
    }
    for of_size in ngrams.values():
        rng.shuffle(of_size)
    taken, found = set(), []
    while len(taken) < wanted and any(ngrams.values()):
        n = rng.choices(list(ngrams), [1 / n for n in ngrams])[0]
        if len(taken) + n > wanted:
            ngrams[n].clear()
        if not ngrams[n]:
            continue
        ngram = [position for word in ngrams[n].pop() for position in word]
        if len(taken) + len(ngram) <= wanted and not taken.intersection(ngram):
            taken.update(ngram)
            found.append(ngram)
    return found


def instances(
    documents,
    *,
    cls,
    sep,
    mask_token,
    vocabulary,
    continues=frozenset(),
    max_seq_length=128,
    max_predictions_per_seq=20,
    masked_lm_prob=0.15,
    short_seq_prob=0.1,
    dupe_factor=10,
    do_whole_word_mask=False,
    random_seed=12345,
):
    """Returns all instances, shuffled, with their tokens before and after masking."""
    rng = random.Random(random_seed)
    documents = [[s for s in document if s] for document in documents]
    documents = [document for document in documents if document]
    rng.shuffle(documents)
    found = []
    for _ in range(dupe_factor):
        for number in range(len(documents)):
            for a, b, is_random_next in pairs_of_document(
                documents, number, max_seq_length, short_seq_prob, rng
            ):
                tokens = [cls, *a, sep, *b, sep]
                output, positions, labels = mask(
                    tokens, {cls, sep}, continues, vocabulary, mask_token, rng,
                    max_predictions_per_seq, masked_lm_prob, do_whole_word_mask,
                )  # fmt: skip
                found.append(
                    {
                        "tokens": output,
                        "unmasked": tokens,
                        "segment_ids": [0] * (len(a) + 2) + [1] * (len(b) + 1),
                        "positions": positions,
                        "labels": labels,
                        "random": is_random_next,
                    }
                )
    rng.shuffle(found)
    return found
