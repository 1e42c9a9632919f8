"""Small vocabularies, and generated questions in the format of SQuAD."""

import dataclasses
import functools
import random

import numpy as np
import pytest
from json_files import read_json, write_json
from reference import squad as oracle
from reference.tokenizer import Tokenizer
from tiny_bert import SPECIAL

from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.tasks.squad.squad_encoding import WindowSettings
from bert_tf.tasks.squad.squad_examples import read_examples
from bert_tf.tasks.squad.squad_task import SquadTask
from bert_tf.tokenization import BertTokenizer

PIECES = (
    "a b c x y s i ##b ##c ##s the cat un ##able steve smith who 1895 1943 ( "
    ") - – , . ? ' ’ # 猫 犬 ש ##ל ##ש α ##σ ##ς ##α"
)
UNCASED = "cafe ᄒ ##ᅡ ##ᆫ"
CASED = "The Cat Steve Smith CAF ##É caf ##é 한 İ ##\u0301 \u0301"

# Some words are unknown, some have no pieces, and some have pieces of another length
# than the word.
_WORDS = (
    "the The cats Cat unable café CAFÉ cafe\u0301 (1895-1943) 1895 b. c, a abc "
    "(a) Smith's Steve steve’s zebra 猫犬 猫 한 İ שלש \u200b \u0301 "
    "\ufffd a\u200bb # ## x\xa0y x\u2028y –"
)
WORDS = [*_WORDS.split(" "), "z" * 201]
# The tokenizer is slow for texts with these words.
RARE_WORDS = ["ΑΣ", "ΑΣ-ΑΣΑ", "\uffff"]
# Marks of tests in both versions, and with both kinds of tokenizers.
VERSIONS = pytest.mark.parametrize("version_2", [False, True], ids=["v1.1", "v2.0"])
CASES = pytest.mark.parametrize(
    "do_lower_case", [True, False], ids=["uncased", "cased"]
)
INPUTS = "input_ids", "input_mask", "segment_ids"
BLANKS = [*[" "] * 8, "  ", "\t", "\n", "\r\n", "\u202f"]


@functools.cache
def tokenizers(do_lower_case):
    """Returns the tokenizer and the reference tokenizer with a small vocabulary."""
    pieces = f"{PIECES} {UNCASED if do_lower_case else CASED}"
    tokens = SPECIAL + pieces.split(" ")
    return BertTokenizer(tokens, do_lower_case), Tokenizer(tokens, do_lower_case)


def released_vocabulary(test_data):
    """Returns the tokens of the released uncased vocabulary."""
    path = test_data / "data/vocab/bert-base-uncased-vocab.txt"
    return tuple(path.read_text("utf-8").split("\n")[:-1])


def paragraph_of(context, *questions):
    """Returns a paragraph.

    A question has the fields id, question, answers and is_impossible.
    """
    names = "id", "question", "answers", "is_impossible"
    qas = [dict(zip(names, question, strict=False)) for question in questions]
    return {"context": context, "qas": qas}


def data_of(*paragraphs):
    """Returns the contents of a file with one article."""
    return {"data": [{"paragraphs": list(paragraphs)}]}


def answers_of(*texts, start=0):
    """Returns answers that all start at the same character."""
    return [{"text": text, "answer_start": start} for text in texts]


def write(path, data):
    """Writes a file of SQuAD, and returns its path as text."""
    write_json(path, data)
    return str(path)


def read(path, training=False, version_2=False):
    """Returns the examples of a file, and the counts of skipped questions."""
    counts = RowCounts()
    return list(read_examples(path, training, version_2, counts)), counts


def to_train(path):
    """Returns id, question, answers and first character of training examples of 1.1.

    All answers are in the first word of their contexts.
    """
    found, _ = read(path, training=True)
    return [
        (each.id, each.question, each.answers, len(each.before_answer))
        for each in found
    ]


def to_train_version_2(path):
    """Returns id, answers and whether there is none, of training examples of 2.0."""
    found, _ = read(path, training=True, version_2=True)
    return [(each.id, each.answers, each.is_impossible) for each in found]


def to_predict(path):
    """Returns id, question and answers of the examples of SQuAD 1.1 to predict."""
    return [(each.id, each.question, each.answers) for each in read(path)[0]]


def random_context(rng, longest):
    """Returns a context of up to `longest` words and a rare one.

    It may start with a blank.
    """
    words = rng.choices(WORDS, k=rng.randint(1, longest))
    words += rng.choices(RARE_WORDS, k=rng.random() < 0.2)
    rng.shuffle(words)
    parts = [rng.choice(BLANKS) if rng.random() < 0.2 else ""]
    for word in words:
        parts += [word, rng.choice(BLANKS)]
    return "".join(parts[: rng.choice([-1, None])])


def random_question(rng, number, context, version_2):
    """Returns a question for training.

    Its answer may be at another place of the context.
    """
    text = " ".join(rng.choices(WORDS, k=rng.randrange(9)))
    if version_2 and (not context.strip() or rng.random() < 0.3):
        return number, text, [], True
    start = rng.randrange(len(context))
    answer = context[start : start + rng.randint(1, 15)]
    if rng.random() < 0.1:
        start = rng.randint(0, len(context) - len(answer))
    return number, text, answers_of(answer, start=start), False


def random_data(seed, count, longest=30, version_2=False, contexts=()):
    """Returns generated questions: up to three for each context, in several articles.

    Args:
        seed: Of the random numbers.
        count: The number of random contexts.
        longest: The maximum number of words of a random context.
        version_2: Whether some questions have no answer.
        contexts: Further contexts.
    """
    rng = random.Random(seed)
    contexts = [*contexts, *(random_context(rng, longest) for _ in range(count))]
    paragraphs = []
    for index, context in enumerate(contexts):
        questions = [
            random_question(rng, f"{index}-{number}", context, version_2)
            for number in range(rng.randint(1, 3))
        ]
        paragraphs.append(paragraph_of(context, *questions))
    return {"data": [{"paragraphs": paragraphs[start::2]} for start in (0, 1)]}


class Encoded:
    """The windows of a file as the task and as the oracle compute them.

    Args:
        path: The file of SQuAD.
        task: The task.
        tokenizer: The reference tokenizer.
        length: The number of positions of a sequence.
        training: Whether the examples are for training; then, in the order of the file.
    """

    def __init__(self, path, task, tokenizer, length, training=False):
        version_2 = task.answers.version_2_with_negative
        data = read_json(path)
        windows = task.windows
        self.task = task
        self.examples, self.counts = read(path, training, version_2)
        self.encoded = task.encode(self.examples, task.tokenizer, length)
        self.oracle_examples = oracle.read_examples(data, training, version_2)
        self.features = oracle.features(
            self.oracle_examples, tokenizer, length, windows.doc_stride,
            windows.max_query_length, training,
        )  # fmt: skip

    def outputs(self, start_logits, end_logits):
        """Yields each example with the outputs of its windows, from logits [R, S]."""
        columns = {name: self.encoded.columns[name] for name in INPUTS}
        columns |= {"start_logits": start_logits, "end_logits": end_logits}
        rows = [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
        ends = np.cumsum(self.encoded.records_per_example).tolist()
        starts = [0, *ends][:-1]
        for example, start, end in zip(self.examples, starts, ends, strict=True):
            yield example, rows[start:end]


def make_task(tokenizer, windows, answers):
    """Returns a `SquadTask` from keyword arguments of its settings."""
    return SquadTask(tokenizer, WindowSettings(**windows), AnswerSettings(**answers))


def random_logits(found, seed, rounded=False):
    """Returns two arrays, float32 [R, S], for the windows of a file.

    Many are equal if rounded.
    """
    rng = np.random.default_rng(seed)
    shape = found.encoded.columns["input_ids"].shape
    values = rng.normal(0, 3, (2, *shape)).astype(np.float32)
    return tuple(np.round(values / 3) if rounded else values)


def oracle_predictions(found, logits, do_lower_case, settings, lengths=None):
    """Returns what the released program writes: predictions, n-best lists, null odds.

    Args:
        found: The windows.
        logits: The start logits and the end logits, each [R, S].
        do_lower_case: Whether the tokenizer converts to lower case.
        settings: Keyword arguments of `AnswerSettings`.
        lengths: If given, the number of positions of each window whose logits are used.
    """
    names = "n_best_size", "max_answer_length", "version_2_with_negative"
    names += ("null_score_diff_threshold",)
    values = dataclasses.asdict(AnswerSettings(**settings))
    lengths = lengths or [None] * len(logits[0])
    rows = [
        [row[:end].tolist() for row, end in zip(part, lengths, strict=True)]
        for part in logits
    ]
    ids = [window.unique_id for window in found.features]
    results = dict(zip(ids, zip(*rows, strict=True), strict=True))
    return oracle.predictions(
        found.oracle_examples,
        found.features,
        results,
        do_lower_case=do_lower_case,
        **{name: values[name] for name in names},
    )
