"""The web page of `demo.py`, to try an exported model in the browser."""

import html
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr

from bert_tf.cli import prediction_tables
from bert_tf.export.demo_answers import IN_LINES, ask, example_of, kind_of, lists_of
from bert_tf.export.predictor import Predictor
from bert_tf.storage import files
from bert_tf.tasks.tables import TableFormat

_MAX_EXAMPLES = 100
_EXAMPLE_LINES = 10  # lines of the example for a model that returns vectors


def _examples(predictor: Predictor, kind: str, path: str | None) -> list[list[str]]:
    """Returns the examples in the file `path`: for each, a text for each box of the page.

    If `path` is None, returns one example for the kind of the model (see
    `demo_answers.kind_of`).
    """
    rows = [example_of(kind, len(predictor.names))]
    if path is not None:
        form = TableFormat()
        remedy = f"Name the columns {', '.join(predictor.names)}."
        items: Iterator[tuple[Any, Any]] = (
            prediction_tables.read_rows(path, predictor, form, remedy=remedy)
            if form.ending_of(path)
            else prediction_tables.texts_of_lines(files.read_lines(path), predictor)
        )
        rows = [texts for _, texts in itertools.islice(items, _MAX_EXAMPLES)]
        if kind == IN_LINES:
            rows = [[[text for (text,) in rows[:_EXAMPLE_LINES]]]]
    return [
        [
            text
            if isinstance(text, str)
            else "\n".join(" ".join(entry.splitlines()) for entry in text)
            for text in texts
        ]
        for texts in rows
    ]


def make_page(predictor: Predictor, title: str, examples: str | None) -> Any:
    """Returns the page, a `gradio.Blocks`; `examples` is the file of the examples, or None."""
    # The first answer shows the kind of the model, and makes the next answers fast.
    names = predictor.names
    lists = predictor.list_names
    kind = kind_of(predictor(*(["a"] if name in lists else "a" for name in names)))

    def answer(*texts: str) -> list[Any]:
        shown, facts = ask(predictor, kind, texts)
        table = shown.table and _styled(shown.table)
        updates = [
            gr.update(value=detail, visible=detail is not None)
            for detail in (shown.bars, shown.parts, table)
        ]
        return [shown.headline, *updates, facts]

    in_lines = lists_of(predictor, kind)
    return gr.Interface(
        answer,
        [
            gr.Textbox(label=f"{n}, one per line" if n in in_lines else n, lines=3)
            for n in names
        ],
        [
            gr.Textbox(label="answer"),
            gr.Label(label="probabilities", show_heading=False, visible=False),
            gr.HighlightedText(label="text", visible=False),
            gr.Dataframe(label="table", visible=False, wrap=True),
            gr.Textbox(
                label="facts", show_label=False, container=False, elem_id="facts"
            ),
        ],
        _examples(predictor, kind, examples),
        cache_examples=False,
        title=html.escape(title),
        submit_btn="Predict",
        clear_btn=None,
        flagging_mode="never",
        analytics_enabled=False,
        concurrency_limit=1,
        api_visibility="private",
    )


def _styled(rows: Sequence[Sequence[Any]]) -> Any:
    """Returns `rows`, of which the first has the column names, as a table with colored numbers."""
    import pandas as pd

    def color(cell: Any) -> str:
        share = 0 if isinstance(cell, str) else max(cell, 0)
        return f"background-color: rgba(96, 165, 250, {share:.2f})"

    return pd.DataFrame(rows[1:], columns=rows[0]).style.map(color).format(precision=2)
