r"""Measures the tokenizer and vocabulary learning, in bert-tf and in other systems.

All times are CPU seconds on one core. The systems tokenize the same batches
alternately, so that other load on the machine affects all systems equally. The median
of the turns is reported. `differ` is the fraction of lines for which a system and
google-research/bert's tokenizer give different ids. tests/reference/tokenizer.py
computes the ids of google-research/bert in plain Python.

    python benchmarks/tokenization.py --data=data \
        --multilingual=django-5.2.19-py3-none-any.whl
    python benchmarks/tokenization.py --data=data --vocabulary_megabytes=100

--multilingual takes a text file, or a wheel with message catalogs, such as Django's (99
languages, 4 MB):

    pip download --no-deps django==5.2.19
"""

import collections
import os
import pathlib
import random
import statistics
import struct
import sys
import time
import zipfile

os.environ["RAYON_NUM_THREADS"] = "1"  # number of threads of `tokenizers`
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
import tensorflow_text as tf_text
import tokenizers
from absl import flags

sys.path.append(str(pathlib.Path(__file__).parent.parent / "tests"))
from reference import tokenizer as reference

from bert_tf.corpus import text_blocks
from bert_tf.program import command_line
from bert_tf.tokenization import BertTokenizer, load_vocabulary
from bert_tf.vocabularies import learning, word_counts

_LINES_PER_BATCH = 1000
_REFERENCE_LINES = 5000

flags.DEFINE_string("data", None, "Folder with corpora/ and vocab/.", required=True)
flags.DEFINE_string("multilingual", None, "Multilingual text: a text file or a wheel.")
flags.DEFINE_integer("turns", 5, "Number of turns of each system.")
flags.DEFINE_integer(
    "megabytes", 8, "MB of text to tokenize, from the start of the file."
)
flags.DEFINE_integer(
    "vocabulary_megabytes",
    0,
    "If above 0: measure learning a vocabulary from this many MB instead.",
)
flags.DEFINE_integer("vocab_size", 30522, "Number of vocabulary entries to learn.")


def tokenizers_bert(tokens, do_lower_case):
    """Returns a fast BERT tokenizer, built from parts of the `tokenizers` package."""
    ids = {token: index for index, token in enumerate(tokens)}
    model = tokenizers.models.WordPiece(
        ids, unk_token="[UNK]", max_input_chars_per_word=200
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
        lowercase=do_lower_case
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def systems(tokens, do_lower_case):
    """Returns three functions per system: prepare a batch, tokenize it, get the ids."""
    ours = BertTokenizer(tokens, do_lower_case)
    fast = tf_text.FastBertTokenizer(
        tokens, lower_case_nfd_strip_accents=do_lower_case, token_out_type=tf.int32
    )
    other = tokenizers_bert(tokens, do_lower_case)
    signature = [tf.TensorSpec([None], tf.string)]
    return {
        "bert-tf": (
            tf.constant, tf.function(ours.tokenize, signature), lambda x: x.to_list(),
        ),
        "FastBertTokenizer": (
            tf.constant, tf.function(fast.tokenize, signature), lambda x: x.to_list(),
        ),
        "tokenizers": (
            lambda lines: [line.decode("utf-8", "ignore") for line in lines],
            lambda texts: other.encode_batch_fast(texts, add_special_tokens=False),
            lambda encodings: [encoding.ids for encoding in encodings],
        ),
    }  # fmt: skip


def measure(title, lines, tokens, do_lower_case, turns):
    """Prints the speed of each system and the fraction of lines with different ids."""
    batches = [
        lines[at : at + _LINES_PER_BATCH]
        for at in range(0, len(lines), _LINES_PER_BATCH)
    ]
    megabytes = sum(map(len, lines)) / 1e6
    released = reference.Tokenizer(tokens, do_lower_case)
    sample = lines[:: max(1, len(lines) // _REFERENCE_LINES)]
    expected = [released.tokenize(line) for line in sample]
    start = time.process_time()
    uncached = reference.Tokenizer(tokens, do_lower_case)
    for line in sample:
        uncached.tokenize(line)
    seconds = {"plain Python": [time.process_time() - start]}
    differ = {"plain Python": 0.0}
    measured = systems(tokens, do_lower_case)
    inputs = {
        name: [prepare(batch) for batch in batches]
        for name, (prepare, *_) in measured.items()
    }
    for name, (prepare, run, ids) in measured.items():
        predicted = ids(run(prepare(sample)))
        differ[name] = statistics.mean(
            a != b for a, b in zip(predicted, expected, strict=True)
        )
        seconds[name] = []
    for _ in range(turns):
        for name, (_, run, _) in measured.items():
            start = time.process_time()
            for batch in inputs[name]:
                run(batch)
            seconds[name].append(time.process_time() - start)
    sizes = {"plain Python": sum(map(len, sample)) / 1e6}
    speed = {
        n: sizes.get(n, megabytes) / statistics.median(s) for n, s in seconds.items()
    }
    print(
        f"\n{title}: {megabytes:.1f} MB, {len(lines):,} lines, vocabulary "
        f"{len(tokens):,}"
    )
    for name, rate in sorted(speed.items(), key=lambda item: -item[1]):
        ratio = speed["bert-tf"] / rate
        print(
            f"  {name:18} {rate:7.2f} MB/s  bert-tf is {ratio:6.2f}x   differ "
            f"{differ[name]:.3%}"
        )


def multilingual_lines(path):
    """Returns the lines of a text file, or of the translated catalogs in a wheel."""
    if not path.endswith(".whl"):
        return pathlib.Path(path).read_bytes().split(b"\n")
    lines = []
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if name.endswith(".mo"):
                lines += translated_lines(wheel.read(name))
    random.Random(0).shuffle(lines)
    return lines


def translated_lines(catalog):
    """Returns the translated lines of a .mo file.

    Source: GNU gettext manual, "The Format of GNU MO Files".
    """
    _, count, _, table = struct.unpack_from("<4I", catalog, 4)
    lines = []
    for index in range(1, count):  # entry 0 contains metadata
        length, at = struct.unpack_from("<2I", catalog, table + 8 * index)
        lines += catalog[at : at + length].replace(b"\0", b"\n").split(b"\n")
    return [line for line in lines if line]


def measure_tokenization(data, megabytes, turns, multilingual):
    """Prints the results for English and for multilingual text, cased and uncased."""
    text = (data / "corpora/books.txt").read_bytes()[: megabytes * 1_000_000]
    for name, do_lower_case in (("uncased", True), ("cased", False)):
        tokens = load_vocabulary(str(data / f"vocab/bert-base-{name}-vocab.txt"))
        measure(f"books.txt, {name}", text.split(b"\n"), tokens, do_lower_case, turns)
    if multilingual:
        lines = multilingual_lines(multilingual)
        tokens = load_vocabulary(
            str(data / "vocab/bert-base-multilingual-cased-vocab.txt")
        )
        measure("many languages, cased", lines, tokens, False, turns)
        measure("many languages, uncased", lines, tokens, True, turns)


def learn_with_bert_tf(path, size):
    """Returns the entries of the vocabulary that bert-tf learns from a text file."""
    blocks, total = text_blocks.read_blocks(text_blocks.TextSource(path))
    config = learning.VocabularyConfig(vocab_size=size)
    counts = word_counts.count_words(blocks, total, do_lower_case=True, num_workers=1)
    return learning.learn(counts.words, config).tokens


def learn_with_tokenizers(path, size):
    """Returns the vocabulary that `tokenizers` learns with byte pair encoding."""
    trainer = tokenizers.BertWordPieceTokenizer(lowercase=True)
    special = ["[PAD]", *(f"[unused{index}]" for index in range(99)), "[UNK]", "[CLS]",
               "[SEP]", "[MASK]"]  # fmt: skip
    trainer.train(path, vocab_size=size, special_tokens=special, show_progress=False)
    return sorted(trainer.get_vocab(), key=trainer.get_vocab().get)


def measure_learning(data, megabytes, size):
    """Prints by vocabulary the time to learn it, and held-out tokens per word."""
    books = (data / "corpora/books.txt").read_bytes()
    training_text, held_out = (
        books[: len(books) * 9 // 10],
        books[len(books) * 9 // 10 :],
    )
    path = f"/tmp/bert_tf_benchmark_{os.getpid()}.txt"
    repeats = -(-megabytes * 1_000_000 // len(training_text))
    pathlib.Path(path).write_bytes((training_text * repeats)[: megabytes * 1_000_000])
    wiki = (data / "corpora/wikitext2_heldout.txt").read_bytes()
    print(f"\nLearning {size:,} entries from {megabytes} MB of books, one core")
    try:
        for name, learn in (
            ("bert-tf", learn_with_bert_tf),
            ("tokenizers", learn_with_tokenizers),
        ):
            start = time.process_time()
            tokens = learn(path, size)
            seconds = time.process_time() - start
            print(f"  {name:11} {seconds:6.1f} s, {len(tokens):,} entries")
            for title, text in (("held-out books", held_out), ("WikiText-2", wiki)):
                print(f"    {title}: {quality(tokens, text)}")
    finally:
        os.remove(path)


def quality(tokens, text):
    """Describes a vocabulary: tokens per word, and the share of [UNK] among words."""
    tokenizer = BertTokenizer(tokens)
    totals = collections.Counter()
    lines = text.split(b"\n")
    for at in range(0, len(lines), _LINES_PER_BATCH):
        ids = tokenizer.tokenize(lines[at : at + _LINES_PER_BATCH]).values.numpy()
        totals["words"] += tokenizer.words(
            lines[at : at + _LINES_PER_BATCH]
        ).values.shape[0]
        totals["tokens"] += len(ids)
        totals["unknown"] += int((ids == tokenizer.unk_id).sum())
    share = totals["unknown"] / totals["words"]
    return (
        f"{totals['tokens'] / totals['words']:.4f} tokens per word, [UNK] {share:.4%}"
    )


def main():
    values = flags.FLAGS
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    data = pathlib.Path(values.data)
    if values.vocabulary_megabytes:
        measure_learning(data, values.vocabulary_megabytes, values.vocab_size)
    else:
        measure_tokenization(data, values.megabytes, values.turns, values.multilingual)


if __name__ == "__main__":
    command_line.run(main)
