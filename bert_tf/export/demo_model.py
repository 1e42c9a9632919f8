"""`DemoModel`: an exported model on the page of the demo, and facts of its export."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from bert_tf.export.demo_answers import kind_of
from bert_tf.export.formats import FORMATS, format_of_file
from bert_tf.export.layout import EXAMPLES_FILE, EXTRA, MODEL_CARD, REPORT_FILE
from bert_tf.export.predictor import Predictor
from bert_tf.storage import files, json_files
from bert_tf.tasks.task import CUSTOM

_SHOWN_LABELS = 10


class DemoModel(NamedTuple):
    """An exported model, with what its page shows.

    Attributes:
        kind: The kind of the model; see `demo_answers`.
        name: The name of the task, such as "mrpc", if it has one; else that of the run;
            else the kind of the task, or the name of the file.
        sentence: The task, the labels, the longest sequence, the format, and the metric
            of the check of the export.
        card: The model card, in Markdown; "" if there is none.
        examples: The path of the examples that the export contains; "" if there are none.
    """

    predictor: Predictor
    kind: str
    name: str
    sentence: str
    card: str
    examples: str


def load(path: str, trust: bool, runtime: str) -> DemoModel:
    """Loads a model; the arguments are those of `Predictor`."""
    predictor = Predictor(path, trust=trust, runtime=runtime)
    # The first answer shows the kind of the model, and makes the next answers fast.
    lists = predictor.list_names
    kind = kind_of(predictor(*(["a"] if n in lists else "a" for n in predictor.names)))

    # A file of an export has a report of its own, in each runtime.
    extra = os.path.join(predictor.version_folder, EXTRA)
    report = json_files.read_optional(extra, os.path.basename(REPORT_FILE))
    name = os.path.basename(path)
    checked, title = report, f"SavedModel, {report.get('precision')}"
    if file_format := format_of_file(path):
        rows = report.get(file_format, [])
        place = name, runtime == "openvino"
        title = f"{FORMATS[file_format].title}, {name}"
        checked = next((r for r in rows if (r["file"], "runtime" in r) == place), {})

    task = predictor.facts.get("task", CUSTOM)
    run = report.get("run") or report.get("task") or name
    card, examples = (
        files.find_file(extra, name) for name in (MODEL_CARD, EXAMPLES_FILE)
    )
    return DemoModel(
        predictor,
        kind,
        name=run if task == CUSTOM else task,
        sentence=_sentence(report.get("task"), predictor, title, checked.get("metric")),
        card=files.read_text(card) if card else "",
        examples=examples or "",
    )


def _sentence(
    task: str | None, predictor: Predictor, title: str, metric: Mapping[str, Any] | None
) -> str:
    """Returns the facts of a model in one sentence, without those that are not known."""
    facts = [task]
    if labels := predictor.facts.get("labels"):
        more = ", …" * (len(labels) > _SHOWN_LABELS)
        shown = ", ".join(labels[:_SHOWN_LABELS])
        facts.append(f"{len(labels)} labels ({shown}{more})")
    facts += [f"at most {predictor.max_seq_length} tokens", title]
    if metric:
        value = "{name} {exported:.1f} % on {num_examples:,} dev examples"
        facts.append(value.format(**metric))
        if metric["baseline"] is not None:
            facts.append(f"{metric['baseline']:.1f} % for a constant answer")
    return "; ".join(filter(None, facts))
