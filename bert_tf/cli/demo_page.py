"""The web page of `demo.py`, to try an exported model in the browser."""

import functools
import html
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gradio as gr

from bert_tf.cli import prediction_tables
from bert_tf.errors import InputError
from bert_tf.export import demo_answers, dev_examples
from bert_tf.export.demo_answers import IN_LINES
from bert_tf.export.demo_model import DemoModel
from bert_tf.export.output_decoding import as_columns
from bert_tf.export.predictor import Predictor
from bert_tf.storage import files
from bert_tf.tasks.ner.schemes import types_of
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import DEV_EXAMPLES
from bert_tf.training.lifecycle.run_state import run_of

_MAX_EXAMPLES = 100
_FROM_RUN = 8  # examples of the dev split of a run
_EXAMPLE_LINES = 10  # lines of the example for a model that returns vectors
_COLORS = ["blue", "red", "green", "purple", "orange", "teal", "pink", "yellow", "lime"]
_MORE = (
    "Example. For examples of your data, give --examples=FILE or --checkpoint=RUN, or "
    "export with --example_texts=8."
)
# The texts of an example, one for each input of the model, and its right answers.
Example = tuple[Sequence[Any], Sequence[str]]


def read_examples(
    models: Sequence[DemoModel], path: str | None, checkpoint: str | None
) -> list[Example]:
    """Returns the examples in a file, else those of a run, else those of an export."""
    predictor, kind, *_ = models[0]
    rows: Iterable[tuple[Any, Any]] = ()
    if path is not None:
        rows = itertools.islice(_rows_of_file(path, predictor), _MAX_EXAMPLES)
    elif checkpoint is not None:
        run = run_of(checkpoint) or checkpoint
        rows = _stored_rows(os.path.join(run, DEV_EXAMPLES), _FROM_RUN, predictor)
    elif own := next((model.examples for model in models if model.examples), ""):
        rows = _stored_rows(own, _MAX_EXAMPLES, predictor)

    examples: list[Example] = [
        (texts, dev_examples.right_answers(row, kind, predictor.facts))
        for row, texts in rows
    ]
    if examples and kind == IN_LINES:
        return [([[text for ((text,), _) in examples[:_EXAMPLE_LINES]]], [])]
    return examples


def _rows_of_file(path: str, predictor: Predictor) -> Iterator[tuple[Any, Any]]:
    """Yields the rows of a table, or {} for each line of a text, with the model's texts."""
    form = TableFormat()
    if form.ending_of(path):
        remedy = f"Name the columns {', '.join(predictor.names)}."
        yield from prediction_tables.read_rows(path, predictor, form, remedy=remedy)
        return
    lines = files.read_lines(path)
    for _, texts in prediction_tables.texts_of_lines(lines, predictor):
        yield {}, texts


def _stored_rows(
    path: str, count: int, predictor: Predictor
) -> Iterator[tuple[Any, Any]]:
    """Yields examples that a run or an export has written, with the model's texts."""
    for row in dev_examples.read(path, count):
        texts = [row.get(name) for name in predictor.names]
        if None in texts:
            raise InputError(
                f"{path} has no {' or '.join(predictor.names)}. Give the run that "
                "trained this model as checkpoint, or leave it out."
            )
        yield row, texts


def make_page(
    models: Sequence[DemoModel], title: str, examples: Sequence[Example]
) -> Any:
    """Returns the page, a `gradio.Blocks`, on which models with equal inputs answer."""
    predictor, kind, *_ = models[0]
    inputs = [(model.kind, *model.predictor.names) for model in models]
    if len(set(inputs)) > 1:
        raise InputError(
            "The models of a page must have the same kind of answers and texts. "
            f"Received: {' and '.join(map(str, inputs))}. Give one --model."
        )
    in_lines = demo_answers.lists_of(predictor, kind)
    sentences = [f"<p>{html.escape(model.sentence)}</p>" for model in models]
    is_one = len(models) == 1
    with gr.Blocks(title=html.escape(title), analytics_enabled=False) as page:
        gr.HTML(f"<h1>{html.escape(title)}</h1>{sentences[0] * is_one}")
        boxes = [
            gr.Textbox(label=f"{n}, one per line" if n in in_lines else n, lines=3)
            for n in predictor.names
        ]
        with gr.Row():
            predict = gr.Button("Predict", variant="primary")
            effects = gr.Button(
                "What matters", visible=kind in demo_answers.WITH_EFFECTS
            )
        with gr.Row():
            for model, sentence in zip(models, sentences, strict=True):
                with gr.Column(min_width=320):
                    gr.HTML(sentence, visible=not is_one)
                    _add_model(model, boxes, predict, effects)
        _add_examples(models, boxes, examples)
    return page


def _add_model(model: DemoModel, boxes: list[Any], predict: Any, effects: Any) -> None:
    """Adds the answers of a model, and its model card, to the page."""
    predictor, kind, *_ = model
    headline = gr.Textbox(label="answer")
    bars = gr.Label(label="probabilities", show_heading=False, visible=False)
    parts = gr.HighlightedText(label="text", visible=False, interactive=False)
    table = gr.Dataframe(label="table", visible=False, wrap=True)
    facts = gr.Textbox(show_label=False, container=False, elem_id="facts")
    types = sorted(types_of(predictor.facts.get("labels", [])))
    colors = dict(zip(types, itertools.cycle(_COLORS), strict=False))

    def answer(*texts: str, effects: bool = False) -> list[Any]:
        shown, note = demo_answers.ask(predictor, kind, texts, effects)
        details = (shown.bars, shown.parts, shown.table and _styled(shown.table))
        updates = [gr.update(value=each, visible=each is not None) for each in details]
        if kind == "entities":
            labels = (label for _, label in shown.parts or () if label)
            updates[1]["color_map"] = {n: colors[n.rpartition(" ")[0]] for n in labels}
        return [shown.headline, *updates, note]

    def second_best(event: gr.SelectData, parts: Any, *texts: str) -> str:
        # gradio documents pairs, and passes dicts.
        marks = [(part["token"], part["class_or_confidence"]) for part in parts]
        if not marks[event.index][1]:
            return "Click on a mark."
        return demo_answers.second_best(predictor, texts, marks, event.index)

    # One prediction at a time, so that two models can be compared by their times.
    one = {
        "concurrency_limit": 1,
        "concurrency_id": "model",
        "api_visibility": "private",
    }
    outputs = [headline, bars, parts, table, facts]
    asked = [predict.click, *(box.submit for box in boxes)]
    gr.on(asked, answer, boxes, outputs, **one)
    effects.click(functools.partial(answer, effects=True), boxes, outputs, **one)
    if kind in ("answer", "entities"):
        parts.select(second_best, [parts, *boxes], facts, **one)
    if model.card:
        with gr.Accordion("Model card", open=False):
            gr.Markdown(model.card.split("---\n", 2)[-1])


def _add_examples(
    models: Sequence[DemoModel], boxes: list[Any], examples: Sequence[Example]
) -> None:
    """Adds a table of examples to click, with the right answer and that of each model."""
    kind = models[0].kind
    shown = examples or [(demo_answers.example_of(kind, len(boxes)), [])]
    rows = [list(map(_box_text, texts)) for texts, _ in shown]
    columns = list(boxes)
    if any(right for _, right in shown):
        numbers = ["", *range(2, 1 + len(models))]
        titles = ["right answer", *(f"answer {n}".rstrip() for n in numbers)]
        columns += [gr.Textbox(label=title, visible=False) for title in titles]
        for row, (_, right) in zip(rows, shown, strict=True):
            row.append(" or ".join(text or "(none)" for text in dict.fromkeys(right)))
        texts = list(zip(*(texts for texts, _ in shown), strict=True))
        for model in models:
            answers = map(as_columns, model.predictor(*texts))
            for row, (_, right), cells in zip(rows, shown, answers, strict=True):
                is_wrong = right and not dev_examples.is_right(cells[0], kind, right)
                row.append("✗ " * bool(is_wrong) + ("  ".join(cells) or "(none)"))
    gr.Examples(rows, columns, label="Examples" if examples else _MORE)


def _box_text(value: Any) -> str:
    """Returns the content of a box: a text, or the texts of a list, one for each line."""
    if isinstance(value, str):
        return value
    return "\n".join(" ".join(line.splitlines()) for line in value)


def _styled(rows: Sequence[Sequence[Any]]) -> Any:
    """Returns `rows`, of which the first has the column names, as a table with colored numbers."""
    import pandas as pd

    def color(cell: Any) -> str:
        share = 0 if isinstance(cell, str) else max(cell, 0)
        return f"background-color: rgba(96, 165, 250, {share:.2f})"

    return pd.DataFrame(rows[1:], columns=rows[0]).style.map(color).format(precision=2)
