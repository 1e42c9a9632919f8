r"""Compares the answers of an exported SQuAD model with those of `run_squad`.

The SavedModel cuts its answers from the bytes of the context. `run_squad` projects the
tokens of an answer to the context as google-research/bert does, which joins words by
single blanks. Both return whole words if the texts cannot be aligned. The program
counts the questions with the same first and last token or the same words, and the
different texts by cause.

    python benchmarks/squad_saved_model.py --checkpoint=/tmp/squad_output \
        --saved_model=/models/squad/1 --predict_file=dev-v1.1.json
"""

import collections
import dataclasses
import json

import numpy as np
from absl import flags

from bert_tf.program import command_line

FLAGS = flags.FLAGS
BATCH_SIZE = 32


def define_flags():
    """Defines the flags; a function, so that a test can import this module."""
    flags.DEFINE_string(
        "checkpoint", None, "Output folder of run_squad.", required=True
    )
    flags.DEFINE_string("saved_model", None, "The exported model.", required=True)
    flags.DEFINE_string("predict_file", None, "A file of SQuAD.", required=True)


def answer_settings(checkpoint, threshold):
    """Returns the settings of the answers, with the threshold of the export."""
    from bert_tf.tasks.squad.best_answers import AnswerSettings

    names = {
        each.name for each in dataclasses.fields(AnswerSettings)
    } & checkpoint.facts.keys()
    values = {name: checkpoint.facts[name] for name in names}
    return AnswerSettings(**{**values, "null_score_diff_threshold": threshold})


def python_answers(checkpoint, examples, settings):
    """Yields each question's best answers and best span, without a SavedModel.

    A span is the index of its first and last token in the context, and its score; None
    if there is no possible answer.
    """
    import tensorflow as tf

    from bert_tf.modeling import BertSpanPredictor
    from bert_tf.tasks.squad.best_answers import AnswerFinder
    from bert_tf.tasks.squad.squad_encoding import WindowSettings, encode

    facts = checkpoint.facts
    windows = WindowSettings(facts["doc_stride"], facts["max_query_length"])
    finder = AnswerFinder(checkpoint.tokenizer, settings, windows.doc_stride)
    model = checkpoint.model(BertSpanPredictor)
    run = tf.function(
        lambda inputs: model(inputs, training=False), reduce_retracing=True
    )
    for first in range(0, len(examples), BATCH_SIZE):
        batch = examples[first : first + BATCH_SIZE]
        encoded = encode(batch, checkpoint.tokenizer, facts["max_seq_length"], windows)
        names = ("input_ids", "input_mask", "segment_ids")
        columns = {name: encoded.columns[name].astype(np.int32) for name in names}
        longest = int(columns["input_mask"].sum(axis=1).max(initial=1))
        columns = {name: each[:, :longest] for name, each in columns.items()}
        outputs = run({name: tf.constant(each) for name, each in columns.items()})
        columns |= {
            name: outputs[name].numpy() for name in ("start_logits", "end_logits")
        }
        row = 0
        for example, count in zip(batch, encoded.records_per_example, strict=True):
            rows = range(row, row + int(count))
            of_windows = [
                {name: each[r] for name, each in columns.items()} for r in rows
            ]
            spans = finder.candidates(example, of_windows)
            yield finder.find(example, of_windows), best_span(spans)
            row = rows.stop


def best_span(spans):
    """Returns first token, last token and score of the best span, or None."""
    if not len(spans):
        return None
    scores = spans["start_logit"] + spans["end_logit"]
    best = spans[np.argsort(-scores, kind="stable")[0]]
    return int(best["first_piece"]), int(best["last_piece"]), float(scores.max())


def served_answers(signature, examples):
    """Yields the outputs of `serving_default` for each question."""
    import tensorflow as tf

    for first in range(0, len(examples), BATCH_SIZE):
        batch = examples[first : first + BATCH_SIZE]
        outputs = signature(
            question=tf.constant([example.question for example in batch]),
            context=tf.constant([example.context for example in batch]),
        )
        columns = {name: value.numpy() for name, value in outputs.items()}
        for row in range(len(batch)):
            yield {name: value[row] for name, value in columns.items()}


def cause(released, served):
    """Returns why two texts of the same span differ."""
    if released == served:
        return "equal"
    if released.split() == served.split():
        return "blanks"
    return "other"


def compare(checkpoint, signature, examples, settings):
    """Returns counts of questions, and EM and F1 of both kinds of answers.

    Args:
        checkpoint: A `Pretrained`.
        signature: `serving_default` of the SavedModel.
        examples: The questions.
        settings: The settings of the answers.
    """
    from bert_tf.tasks.squad.squad_results import AnswerMetrics

    counts: dict[str, int] = collections.Counter()
    scores = {
        "run_squad": AnswerMetrics(settings),
        "SavedModel": AnswerMetrics(settings),
    }
    rows = zip(
        examples, python_answers(checkpoint, examples, settings),
        served_answers(signature, examples), strict=True,
    )  # fmt: skip
    for example, (best, span), served in rows:
        counts["questions"] += 1
        released, text = best.predicted(settings), served["answer"].decode()
        (starts,), (ends,) = offsets(checkpoint.tokenizer, example.context)
        if span is None or served["no_answer"]:
            equal = bool(served["no_answer"]) == (released == "" or span is None)
        else:
            equal = (served["start"], served["end"]) == (starts[span[0]], ends[span[1]])
            equal = equal or released.split() == text.split()
            counts["near ties"] += not equal and abs(served["score"] - span[2]) < 1e-4
        counts["same first and last token"] += equal
        if equal and span is not None:
            counts[f"text: {cause(released, text)}"] += 1
        null_diff = best.null_score_diff
        scores["run_squad"].add(example, released, best.best_text, null_diff)
        scores["SavedModel"].add(
            example, text or "", text, float(served.get("null_score_diff", 0))
        )
    return dict(counts), {name: each.results() for name, each in scores.items()}


def offsets(tokenizer, context):
    """Returns the first and the last byte of each token of a context."""
    import tensorflow as tf

    _, starts, ends = tokenizer.tokenize_with_offsets(tf.constant([context]))
    return starts.to_list(), ends.to_list()


def main():
    """Prints the counts and the metrics as JSON."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)

    from bert_tf.pretrained import load
    from bert_tf.storage import files, json_files
    from bert_tf.tasks.splits import RowCounts
    from bert_tf.tasks.squad.squad_examples import read_examples
    from bert_tf.tasks.squad.squad_results import THRESHOLD

    checkpoint = load(FLAGS.checkpoint)
    version_2 = checkpoint.facts["version_2_with_negative"]
    examples = list(read_examples(FLAGS.predict_file, False, version_2, RowCounts()))
    signature = tf.saved_model.load(FLAGS.saved_model).signatures["serving_default"]
    path = f"{FLAGS.checkpoint}/{THRESHOLD}"
    best = json_files.read(path, own=True) if files.exists(path) else checkpoint.facts
    settings = answer_settings(checkpoint, best["null_score_diff_threshold"])
    counts, metrics = compare(checkpoint, signature, examples, settings)
    print(json.dumps({"counts": counts, "metrics": metrics}, indent=2))


if __name__ == "__main__":
    define_flags()
    command_line.run(main)
