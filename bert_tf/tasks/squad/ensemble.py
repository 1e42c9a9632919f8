"""`average`: the answers of an ensemble, from the n-best files of several runs."""

import collections
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files, json_files
from bert_tf.storage.overwrite_rule import check_is_not_input
from bert_tf.tasks.results import Metrics, with_baselines
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.squad.best_answers import Answer, AnswerSettings, BestAnswers
from bert_tf.tasks.squad.squad_examples import SquadExample, read_examples
from bert_tf.tasks.squad.squad_results import FILES, SquadResults
from bert_tf.tasks.tables import Row

OUTPUTS = (*FILES, "eval_results.txt")
_MIN_PROBABILITY = 1e-38


def average(
    paths: Sequence[str],
    folder: str,
    settings: AnswerSettings,
    data_file: str | None = None,
    limit: int = 0,
) -> Metrics:
    """Writes the files of `SquadResults`, with the mean probabilities of several runs.

    An answer that is not in the n-best list of a run has the probability 0 in this run.
    Each logit of the written n-best list is half the logarithm of the probability.
    Returns the official metrics with names `eval_...`; {} without correct answers.

    Args:
        paths: Files `nbest_predictions.json`, with answers to the same questions.
        data_file: The data set of the questions, which is only needed for the metrics.
        limit: The number of questions of `data_file` that were predicted; 0 for all.

    Raises:
        InputError: A file is malformed, or the files differ in their questions.

    Source: the BERT paper, section 4.2 (the ensemble).
    """
    runs = [_read(path, settings.version_2_with_negative) for path in paths]
    for path, run in zip(paths, runs, strict=True):
        if run.keys() != runs[0].keys():
            raise InputError(
                f"{path} and {paths[0]} have different questions, such as "
                f"{next(iter(run.keys() ^ runs[0].keys()))!r}. Give predictions for "
                "the same file."
            )
    for source in filter(None, (*paths, data_file)):
        check_is_not_input(source, folder, OUTPUTS)
    examples = _questions(data_file, settings, runs[0], limit)

    # Earlier files, which may be for another version or other questions, are removed.
    files.make_folder(folder)
    for name in OUTPUTS:
        files.remove(os.path.join(folder, name))

    squad_results = SquadResults(settings)
    squad_results.write(
        folder,
        (
            (example, _mean([run[example.id] for run in runs], settings))
            for example in examples
        ),
    )
    results = {
        f"eval_{name}": value for name, value in with_baselines(squad_results).items()
    }
    if results:
        text = "".join(f"{name} = {value}\n" for name, value in results.items())
        files.write_text(os.path.join(folder, "eval_results.txt"), text)
    return results


def _read(path: str, version_2_with_negative: bool) -> dict[str, list[Row]]:
    """Reads an n-best file; empty answers need `version_2_with_negative`, else raise InputError."""
    contents = json_files.read(path)
    lists = contents.values()
    if not lists or not all(isinstance(answers, list) and answers for answers in lists):
        raise InputError(
            f"{path} has no lists of answers. Give a file nbest_predictions.json, and "
            "not predictions.json."
        )

    if not version_2_with_negative and not all(
        answer["text"] for answer in itertools.chain(*lists)
    ):
        raise InputError(
            f"{path} contains empty answers, as for SQuAD 2.0. Give "
            "version_2_with_negative=True."
        )
    return contents


def _questions(
    data_file: str | None,
    settings: AnswerSettings,
    answered: Mapping[str, Any],
    limit: int,
) -> list[SquadExample]:
    """Returns the questions in the order of the data set or, without it, of the n-best files."""
    if data_file is None:
        return [
            SquadExample(question, "", words=(), context="", answers=None)
            for question in answered
        ]

    all_examples = read_examples(
        data_file, False, settings.version_2_with_negative, RowCounts()
    )
    examples = list(itertools.islice(all_examples, limit or None))
    different = {example.id for example in examples} ^ answered.keys()
    if different:
        raise InputError(
            f"{data_file} and the n-best files have different questions, such as "
            f"{min(different)!r}. Give the file that was predicted."
        )
    return examples


def _mean(runs: Sequence[list[Row]], settings: AnswerSettings) -> BestAnswers:
    """Returns the n-best list of a question by mean probability, from its lists in several runs."""
    totals: collections.Counter[str] = collections.Counter()
    for run in runs:
        for answer in run:
            totals[answer["text"]] += answer["probability"]

    # The n best texts, and "".
    means = {
        text: total / len(runs)
        for text, total in totals.most_common(settings.n_best_size)
    }
    if "" in totals:
        means[""] = totals[""] / len(runs)

    logits = {
        text: math.log(max(mean, _MIN_PROBABILITY)) for text, mean in means.items()
    }
    answers = tuple(
        Answer(text, logit / 2, logit / 2) for text, logit in logits.items()
    )
    best = next((logit for text, logit in logits.items() if text), None)
    difference = logits[""] - best if "" in logits and best is not None else 0.0
    return BestAnswers(answers, tuple(means.values()), difference)
