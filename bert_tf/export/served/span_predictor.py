"""`ServedSpanPredictor`: answers to questions, which are parts of a context."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.export.served import answers, windows
from bert_tf.export.served.base import LabelledExamples, ServedModel
from bert_tf.export.served.tensor_operations import substrings
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.modeling import BertSpanPredictor
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.tasks.squad.squad_encoding import SPECIAL_TOKENS, WindowSettings
from bert_tf.tasks.squad.squad_examples import SquadExample, read_examples
from bert_tf.tasks.squad.squad_results import AnswerMetrics
from bert_tf.tasks.squad.squad_task import check_room
from bert_tf.tasks.tables import column_values, ending_without_gz
from bert_tf.tasks.task import Outputs, settings_from
from bert_tf.tasks.values import text_of
from bert_tf.training.step.objective import Tensors


class ServedSpanPredictor(ServedModel):
    """A tokenizer and a model of questions and answers in one graph.

    `serving_default` takes `question` and `context`, string [B] each. A context may
    have any length. The outputs, [B] each, are:

    * `answer`, string: a part of the bytes of the context; "" if there is no answer.
    * `start`, `end`, int32: the answer is `context[start:end]`, in bytes; both are 0
      for "".
    * `score`, float32: the start logit plus the end logit of the answer.
    * `probability`, float32: the softmax of the scores of the n best answers with
      different texts, "" among them in SQuAD 2.0; 0 if no answer is possible.
    * `no_answer`, bool: whether the answer is "".
    * `null_score_diff`, float32, only for a model of SQuAD 2.0: the score of "" minus
      that of the best other answer. The answer is "" if this difference is greater than
      the threshold.

    `ids` and `ids_lengths` have the outputs `start_logits` and `end_logits`, float32
    [B, S].
    """

    text_names = ("question", "context")
    file_outputs = ("start_logits", "end_logits")
    pipeline_tag = "question-answering"
    head = ("cls/squad/output_weights", "cls/squad/output_bias")
    own_settings = ("null_score_diff_threshold",)
    facts: Mapping[str, Any] = {
        "max_seq_length": 384,
        **vars(WindowSettings()),
        **vars(AnswerSettings()),
    }

    @classmethod
    def default_facts(cls, task: str, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the default of each fact; see `ServedModel.default_facts`."""
        # Models of earlier versions do not state the units of F1.
        return {
            n: value for n, value in cls.facts.items() if n != "f1_by" or n in stated
        }

    def __init__(self, checkpoint: Pretrained, settings: ServingSettings) -> None:
        facts = dict(checkpoint.facts)
        if settings.null_score_diff_threshold is not None:
            facts["null_score_diff_threshold"] = settings.null_score_diff_threshold
        super().__init__(checkpoint, settings, BertSpanPredictor)
        self._window_settings = settings_from(WindowSettings, facts)
        check_room(self.max_seq_length, self._window_settings)
        self._settings = settings_from(AnswerSettings, facts)

    def from_texts(self, *texts: Any) -> Tensors:
        """Returns the answers to questions about contexts, string [B] each."""
        question, context = texts
        settings = self._settings
        limits = self._window_settings
        questions = self.tokenizer.tokenize(question)[:, : limits.max_query_length]
        contexts = answers.tokenize(context, self.tokenizer)
        question_length = tf.cast(questions.row_lengths(), tf.int32)
        room = self.max_seq_length - SPECIAL_TOKENS - question_length
        parts = windows.split(
            contexts.ids, room, limits.doc_stride, question_length + 2
        )
        length = self.max_seq_length if settings.padding_as_released else None
        inputs = windows.sequences(
            parts,
            contexts.ids,
            questions=questions,
            tokenizer=self.tokenizer,
            length=length,
        )
        # A long context has many windows.
        start_logits, end_logits = self.outputs_in_parts(
            inputs, "start_logits", "end_logits"
        )

        # The possible answers of all windows, as bytes of the context.
        candidates = answers.candidates(
            parts,
            start_logits,
            end_logits=end_logits,
            input_mask=inputs["input_mask"],
            settings=settings,
        )
        candidates = answers.in_bytes(candidates, contexts)
        # Many candidates can be the same long word, so only different ones become
        # texts.
        candidates = answers.distinct(candidates, candidates.start, candidates.end)
        candidates = answers.distinct(candidates, substrings(context, *candidates[:3]))
        null = answers.null_scores(parts, start_logits, end_logits, tf.size(context))
        return self._outputs(
            answers.best(candidates, null, settings), candidates, context
        )

    def gaps(self, outputs: Outputs, others: Outputs) -> Mapping[str, Any]:
        """Returns the gaps of answers, relative to the scores; see `ServedModel.gaps`."""
        settings = self._settings
        scale = max(1.0, float(np.abs(outputs["score"]).max(initial=0)))
        difference = outputs.get("null_score_diff", np.inf)
        to_threshold = np.abs(difference - settings.null_score_diff_threshold) / scale

        # Of two equally good answers, each has at most half of the probability. If only
        # one answer is kept, all probabilities are 1, and equal scores show a tie.
        of_scores = np.abs(outputs["score"] - others["score"]) / scale
        of_answers = np.minimum(to_threshold, outputs["probability"] - 0.5)
        if settings.n_best_size == 1:
            of_answers = np.minimum(of_answers, of_scores)

        # An answer can be at several places of a context.
        is_same = outputs["answer"] == others["answer"]
        of_places = np.where(is_same, np.minimum(of_answers, of_scores), of_answers)
        return {
            "no_answer": to_threshold,
            "answer": of_answers,
            "start": of_places,
            "end": of_places,
        }

    def read_examples(self, path: str) -> LabelledExamples:
        """Yields question and context, and the correct answers, of each example in a file.

        The file may also be a `.json` or `.json.gz` file of SQuAD. Examples without
        known answers are skipped.
        """
        version_2 = self._settings.version_2_with_negative
        if ending_without_gz(path) == ".json":
            for example in read_examples(path, False, version_2, RowCounts()):
                if example.answers is not None:
                    yield (example.question, example.context), example.answers
            return
        names = (*self.text_names, "answers")
        for number, (question, context, correct) in column_values(path, names):
            location = f"{path}, line {number}"
            if not isinstance(correct, list) or not (correct or version_2):
                raise InputError(
                    f"{location}: 'answers' must be a list of texts, such as [\"1066\"]."
                )
            texts = (text_of(question, location), text_of(context, location))
            yield texts, tuple(text_of(answer, location) for answer in correct)

    def metric(self, outputs: Outputs, correct: Sequence[Any]) -> tuple[str, float]:
        """Returns the F1 of the answers, in percent, as the official script computes it."""
        metrics = AnswerMetrics(self._settings)
        for text, known in zip(outputs["answer"], correct, strict=True):
            answer = text.decode("utf-8", "replace")
            # The last two arguments serve to find the best threshold, which is not used.
            metrics.add(
                SquadExample("", "", words=(), context="", answers=known),
                answer,
                answer,
                0.0,
            )
        return "f1", metrics.results()["f1"]

    def _outputs(
        self,
        best: answers.Best,
        found: answers.Candidates,
        contexts: Any,
    ) -> Tensors:
        """Returns the outputs of `serving_default`; the candidates are bytes of `contexts`."""
        # The candidate after the last one stands for no answer.
        padded = (tf.concat([offsets, [0]], 0) for offsets in (found.start, found.end))
        start, end = (
            tf.where(best.is_null, 0, tf.gather(offsets, best.index))
            for offsets in padded
        )
        outputs = {
            "answer": substrings(contexts, tf.range(tf.size(contexts)), start, end),
            "start": start,
            "end": end,
            "score": tf.cast(best.score, tf.float32),
            "probability": tf.cast(best.probability, tf.float32),
            "no_answer": best.is_null,
        }
        if self._settings.version_2_with_negative:
            outputs["null_score_diff"] = tf.cast(best.null_score_diff, tf.float32)
        return outputs
