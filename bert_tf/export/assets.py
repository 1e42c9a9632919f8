"""Writes the files that exports of all formats have: facts, vocabulary, labels, model card."""

import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text

from bert_tf.export.formats import FILE_FORMATS
from bert_tf.export.job import ExportJob
from bert_tf.export.layout import (
    CHECKED_FILES,
    EXAMPLES_FILE,
    EXTRA,
    FILES_SHA256,
    MODEL_CARD,
)
from bert_tf.export.output_decoding import SEPARATORS, separator_of
from bert_tf.export.served.loading import served_class
from bert_tf.storage import files, integrity, weights
from bert_tf.tasks.task import DEV_EXAMPLES

LABELS_FILE = "labels.txt"
_TEXT_DIFFERENCES = """\
The files whose names end with `_text.tflite` contain the tokenizer. Its ids may \
differ from those
of `BertTokenizer` for four kinds of text: bytes that are not valid UTF-8; a capital \
sigma at the
end of a word; words of more than 200 characters, which become [UNK] only if they \
have more than 800
bytes; and the few combining characters that canonical ordering moves and \
normalization does not
remove as accents. These files need the operations of tensorflow-text.
"""


def text_files(job: ExportJob) -> dict[str, bytes]:
    """Returns the content of `vocab.txt` and, if there are labels, of `labels.txt`."""
    # Both files have one line for each token or label.
    vocabulary = weights.vocabulary_text(job.checkpoint.tokenizer.vocabulary)
    labels = job.checkpoint.facts.get("labels", [])
    contents = {weights.VOCABULARY_FILE: vocabulary}
    if labels:
        contents[LABELS_FILE] = weights.vocabulary_text(labels)
    return contents


def write(folder: str, job: ExportJob, report: Mapping[str, Any]) -> None:
    """Writes facts, config, vocabulary, labels, card and examples to the folder of a version.

    The folder must contain the models already, because the facts have their checksums.
    """
    extra = os.path.join(folder, EXTRA)
    tf.io.gfile.makedirs(extra)
    facts = {**job.facts, FILES_SHA256: integrity.checksums(folder, CHECKED_FILES)}
    files.write_json(os.path.join(extra, weights.FACTS_FILE), integrity.seal(facts))
    config = job.checkpoint.config.to_dict()
    files.write_json(os.path.join(extra, weights.CONFIG_FILE), config)
    for name, content in text_files(job).items():
        files.write_bytes(os.path.join(extra, name), content)
    files.write_text(os.path.join(extra, MODEL_CARD), model_card(job, report))
    if job.examples:
        files.write_json_lines(os.path.join(extra, EXAMPLES_FILE), job.examples)


def model_card(job: ExportJob, report: Mapping[str, Any]) -> str:
    """Returns the model card in Markdown, with the header that the Hugging Face hub reads."""
    config = job.checkpoint.config
    facts = job.checkpoint.facts
    tokenizer = job.checkpoint.tokenizer
    labels = facts.get("labels", [])
    prompt = job.facts.get("embedding", {}).get("prompt", "")
    shown = json.dumps(prompt, ensure_ascii=False)
    version = importlib.metadata.version("bert-tf")

    # A row without a value is left out.
    rows = {
        "task": job.task,
        "labels": ", ".join(labels),
        "separator of several labels": SEPARATORS[separator_of(labels)]
        if job.task == "multi_label"
        else "",
        "longest sequence": f"{report['max_seq_length']} tokens",
        "long texts": facts.get("long_texts"),
        "prompt": prompt
        and f"`{shown}` before each text; token ids must contain it too",
        "values of a vector": job.settings.dimensions,
        "layers, width, heads": f"{config.num_hidden_layers}, {config.hidden_size}, "
        f"{config.num_attention_heads}",
        "threshold of no answer": ", ".join(map(str, job.answer_facts.values())),
        "training step": facts.get("global_step"),
        "precision of the weights": report.get("precision"),
        "casing": "lower-cased" if tokenizer.do_lower_case else "cased",
        "SHA-256 of the vocabulary": tokenizer.vocabulary_sha256,
        f"SHA-256 of {DEV_EXAMPLES}": job.dev_examples,
        "versions": f"bert-tf {version}, tensorflow {tf.__version__}, tensorflow-text "
        f"{tensorflow_text.__version__}, keras {keras.__version__}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items() if value)

    # The card begins with fields that the hub reads.
    results = "\n".join(f"| {name} | {value} |" for name, value in job.results.items())
    parts = [
        "---\nlibrary_name: bert-tf\npipeline_tag: "
        f"{served_class(job.task).pipeline_tag}\ntags:\n- bert\n- tensorflow\n---\n",
        f"# Model card\n\n| | |\n|---|---|\n{table}\n",
    ]
    if results:
        parts.append(
            f"## Results on the dev split\n\n| metric | value |\n|---|---|\n{results}\n"
        )
    if job.training:
        settings = json.dumps(
            job.training, indent=2, sort_keys=True, ensure_ascii=False
        )
        parts.append(f"## Training\n\n```json\n{settings}\n```\n")

    for name, file_format in FILE_FORMATS.items():
        if rows_of_files := report.get(name):
            parts.append(f"## {file_format.title}\n\n{table_of(rows_of_files)}\n")
            if any(row["takes_texts"] for row in rows_of_files):
                parts.append(_TEXT_DIFFERENCES)
    return "\n".join(parts)


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns a Markdown table of the files of one format; `rows` are reports of `file_checks`."""
    latencies = list(rows[0]["latency_ms"])
    names = [
        "file",
        "MB",
        "load, ms",
        *(f"{latency}, ms" for latency in latencies),
        "metric",
    ]
    lines = [names, ["---"] * len(names)]
    for row in rows:
        metric = row["metric"]
        lines.append(
            [
                f"{row['file']}, {row.get('runtime', '')}".strip(", "),
                f"{row['size_bytes'] / 1e6:.1f}",
                f"{row['load_ms']:.0f}",
                *(f"{row['latency_ms'][latency]:.2f}" for latency in latencies),
                f"{metric['name']} {metric['exported']:.2f}" if metric else "",
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
