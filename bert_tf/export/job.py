"""`ExportJob`: the checkpoint of an export, facts of its run, and the settings."""

import dataclasses
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.conversion.sentence_transformers import prompt_of
from bert_tf.export.served import DEFAULT_THRESHOLD, task_of
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.pretrained import Pretrained
from bert_tf.storage import files, json_files
from bert_tf.training.lifecycle.run_state import TRAINING_FILE

_RESULTS_FILE = "eval_results.txt"


@dataclasses.dataclass(frozen=True)
class ExportJob:
    """A checkpoint to export, the settings of the export, and facts of the training run.

    Attributes:
        version: The number of the new version, which names its folder.
        dev_data: A file of labelled examples; "" if there is none.
        dev_examples: The SHA-256 of the examples of the dev split that the run stored;
            "" if it stored none.
        results: The results of the run's evaluation, by name; {} if they are not known.
        training: The settings of the run's training; {} if they are not known.
        run: The name of the folder of the run, or of another checkpoint.
        examples: Examples of the dev split that users of the export may see, as
            `Task.as_row` returns them.
    """

    checkpoint: Pretrained
    task: str
    settings: ServingSettings
    version: str
    dev_data: str
    dev_examples: str
    results: Mapping[str, str]
    training: Mapping[str, Any]
    run: str
    examples: Sequence[Mapping[str, Any]]

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the exported model, such as its labels and, in `embedding`, its prompt."""
        facts = dict(self.checkpoint.facts)
        tokenizer = self.checkpoint.tokenizer
        for name in ("source", "dialect", "global_step"):
            facts.pop(name, None)
        if self.task == "multi_label":
            facts.setdefault("threshold", DEFAULT_THRESHOLD)
        if self.task == "embedding":
            embedding = facts.get("embedding", {})
            prompt = prompt_of(embedding, self.settings.prompt_name)
            if prompt:
                facts["embedding"] = {**embedding, "prompt": prompt}
        return {
            **facts,
            "do_lower_case": tokenizer.do_lower_case,
            "vocabulary_sha256": tokenizer.vocabulary_sha256,
        }

    @property
    def answer_facts(self) -> dict[str, float]:
        """{"null_score_diff_threshold": value}, or {} if answers cannot be empty."""
        facts = self.checkpoint.facts
        name = "null_score_diff_threshold"
        has_threshold = facts.get("version_2_with_negative") and name in facts
        return {name: facts[name]} if has_threshold else {}


def read_results(run: str, checkpoint: Pretrained, task: str) -> dict[str, str]:
    """Returns the results of a run's evaluation; {} if there are none for this step and task."""
    path = posixpath.join(run, _RESULTS_FILE)
    if not files.exists(path) or task != task_of(checkpoint):
        return {}
    lines = files.read_text(path).splitlines()
    results = dict(line.split(" = ", 1) for line in lines if " = " in line)
    is_of_step = results.get("global_step") == str(checkpoint.facts.get("global_step"))
    return results if is_of_step else {}


def read_training(run: str) -> dict[str, Any]:
    """Returns the settings of a run's training; {} if the run stored none."""
    path = posixpath.join(run, TRAINING_FILE)
    return json_files.read(path, own=True) if files.exists(path) else {}
