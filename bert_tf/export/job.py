"""`ExportJob`: the checkpoint of an export, what its run knows about it, and the settings."""

import dataclasses
import posixpath
from collections.abc import Mapping
from typing import Any

from bert_tf import files, json_files
from bert_tf.export.served import DEFAULT_THRESHOLD, task_of
from bert_tf.export.settings import ServingSettings
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.task import DEV_EXAMPLES
from bert_tf.training.lifecycle.run_state import TRAINING_FILE

_RESULTS_FILE = "eval_results.txt"


@dataclasses.dataclass(frozen=True)
class Origin:
    """The checkpoint of an export.

    Attributes:
        checkpoint: The checkpoint.
        task: The task of the export, such as "classification".
        results: The results of the run's evaluation, by name; {} if they are not known.
        settings: The settings of the run's training; {} if they are not known.
        dev_examples: The SHA-256 of the examples of the dev split that the run stored; "" if it did
            not.
    """

    checkpoint: Pretrained
    task: str
    results: Mapping[str, str]
    settings: Mapping[str, Any]
    dev_examples: str


def run_folder(checkpoint: str) -> str:
    """Returns the output folder of the run to which a checkpoint belongs, or the checkpoint itself.

    Args:
        checkpoint: The output folder, or one of its checkpoints.
    """
    parent = posixpath.dirname(checkpoint)
    candidates = (checkpoint, parent, posixpath.dirname(parent))
    found = (path for path in candidates if files.exists(posixpath.join(path, TRAINING_FILE)))
    return next(found, checkpoint)


def read_origin(path: str, checkpoint: Pretrained, task: str) -> Origin:
    """Returns the origin of an export, with the results and settings of the run's folder.

    Results of another step or for another task are left out.

    Args:
        path: The output folder of the run, or another path of the checkpoint.
        checkpoint: The checkpoint.
        task: The task of the export.

    Raises:
        InputError: A file of the run is damaged.
    """
    results_path, settings_path = (
        posixpath.join(path, name) for name in (_RESULTS_FILE, TRAINING_FILE)
    )
    results, settings = {}, {}
    if files.exists(results_path):
        lines = files.read_text(results_path).splitlines()
        results = dict(line.split(" = ", 1) for line in lines if " = " in line)
        step = str(checkpoint.facts.get("global_step"))
        if results.get("global_step") != step or task != task_of(checkpoint):
            results = {}
    if files.exists(settings_path):
        settings = json_files.read(settings_path, {"data": json_files.OBJECT}, own=True)
        data = settings.get("data") or {}
        if start := data.get("init_checkpoint"):  # a path of this machine
            data["init_checkpoint"] = posixpath.basename(start.rstrip("/"))
    examples_path = posixpath.join(path, DEV_EXAMPLES)
    examples = files.sha256_of_file(examples_path) if files.exists(examples_path) else ""
    return Origin(checkpoint, task, results, settings, examples)


def facts_of(origin: Origin) -> dict[str, Any]:
    """Returns the facts of an exported model, such as its labels."""
    facts, tokenizer = dict(origin.checkpoint.facts), origin.checkpoint.tokenizer
    for name in ("source", "dialect", "global_step"):
        facts.pop(name, None)
    if origin.task == "multi_label":
        facts.setdefault("threshold", DEFAULT_THRESHOLD)
    return {
        **facts,
        "do_lower_case": tokenizer.do_lower_case,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
    }


def answer_facts(origin: Origin) -> dict[str, float]:
    """Returns the threshold of a model whose answers may be empty, by its name; {} for others."""
    facts, name = origin.checkpoint.facts, "null_score_diff_threshold"
    return {name: facts[name]} if facts.get("version_2_with_negative") and name in facts else {}


@dataclasses.dataclass(frozen=True)
class ExportJob:
    """A checkpoint to export, and how.

    Attributes:
        origin: The checkpoint.
        settings: The settings of the export.
        version: The name of the version's folder when the export is complete.
        dev_data: A file of labelled examples; "" if there is none.
    """

    origin: Origin
    settings: ServingSettings
    version: str
    dev_data: str
