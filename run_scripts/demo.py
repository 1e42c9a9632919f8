r"""Serves a page for the browser, to try an exported model.

    pip install '.[demo]'
    python run_scripts/demo.py --model=/models/mine
    python run_scripts/demo.py --model=/models/mine --examples=texts.csv --port=8000

The page follows from what the model returns: bars for labels and choices, marks in the
text for answers and named entities, tokens for [MASK], and similarities for vectors. It
needs no connection to the internet, and only this machine can open it, unless --host
says otherwise. Ctrl-C ends the program.
"""

import html
import itertools
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies_environment

from absl import flags

from bert_tf.errors import InputError
from bert_tf.optional_packages import import_package
from bert_tf.program import command_line, startup
from bert_tf.run_scripts import prediction_tables, shared_flags
from bert_tf.storage import files
from bert_tf.tasks.tables import TableFormat

if TYPE_CHECKING:
    from bert_tf.export.predictor import Predictor

FLAGS = flags.FLAGS
_MAX_EXAMPLES = 100
_EXAMPLE_LINES = 10  # for a model of vectors
_HIGHEST_PORT = 65535
flags.DEFINE_string(
    "examples",
    None,
    "File with examples to click, as --input_file of predict.py: a text a line, or a "
    "table. Default: one example for the kind of the model.",
)
flags.DEFINE_string("title", None, "Title of the page. Default: the name of the model.")
flags.DEFINE_string("host", "127.0.0.1", "Address of the page; 0.0.0.0 for all.")
flags.DEFINE_integer(
    "port", 7860, "Port of the page.", lower_bound=1, upper_bound=_HIGHEST_PORT
)
shared_flags.define_exported_model_flags()


def main() -> None:
    """Serves the page until the program is interrupted."""
    check_flags()
    startup.import_tensorflow()
    import gradio as gr

    from bert_tf.export.demo_answers import kind_of
    from bert_tf.export.predictor import Predictor

    # The first answer shows the kind of the model, and makes the next ones fast.
    predictor = Predictor(FLAGS.model, trust=FLAGS.trust, runtime=FLAGS.runtime)
    names = predictor.names
    lists = predictor.list_names
    kind = kind_of(predictor(*(["a"] if name in lists else "a" for name in names)))
    page = make_page(predictor, kind)
    # gradio asks its own page for an answer, and would ask a proxy for it.
    without_proxy = (getproxies_environment().get("no"), FLAGS.host, "localhost")
    os.environ["no_proxy"] = ",".join(filter(None, without_proxy))
    page.queue(api_open=False)  # one prediction at a time
    page.launch(
        server_name=FLAGS.host,
        server_port=FLAGS.port,
        prevent_thread_lock=True,
        quiet=True,
        share=False,
        max_file_size=0,  # nothing is uploaded
        enable_monitoring=False,
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        # Other fonts are loaded from the internet.
        theme=gr.themes.Default(font=("system-ui",), font_mono=("monospace",)),
    )
    try:
        address = f"http://{FLAGS.host}:{FLAGS.port}"
        print(f"The page is at {address}. Ctrl-C ends it.", flush=True)
        threading.Event().wait()
    finally:
        page.close()


def check_flags() -> None:
    """Checks the flags as far as this is possible without the model.

    Raises:
        InputError: A file is missing, the port is in use, or gradio is not installed.
    """
    shared_flags.check_paths_exist(FLAGS.model, FLAGS.examples)
    import_package("gradio", "demo", "The page")
    try:
        socket.create_server((FLAGS.host, FLAGS.port)).close()
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise InputError(
            f"The page cannot be at {FLAGS.host}:{FLAGS.port}: {reason}. Give another "
            "--port or --host."
        ) from error


def examples(predictor: "Predictor", kind: str) -> list[list[str]]:
    """Returns the texts of each example: a text for each box of the page.

    Raises:
        InputError: The file cannot be read.
    """
    from bert_tf.export.demo_answers import IN_LINES, example_of

    names = predictor.names
    lists = predictor.list_names
    path = FLAGS.examples
    rows = [example_of(kind, len(names))]
    if path is not None:
        form = TableFormat()
        columns = [None] * len(names)
        remedy = f"Name the columns {', '.join(names)}."
        found: Iterator[tuple[Any, Any]] = (
            prediction_tables.read_rows(path, names, lists, columns, form, remedy)
            if form.ending_of(path)
            else prediction_tables.texts_of_lines(files.read_lines(path), names, lists)
        )
        rows = [texts for _, texts in itertools.islice(found, _MAX_EXAMPLES)]
        if kind == IN_LINES:
            rows = [[[text for (text,) in rows[:_EXAMPLE_LINES]]]]
    return [
        [
            text
            if isinstance(text, str)
            else "\n".join(" ".join(each.splitlines()) for each in text)
            for text in texts
        ]
        for texts in rows
    ]


def make_page(predictor: "Predictor", kind: str) -> Any:
    """Returns the page, a `gradio.Blocks`."""
    import gradio as gr

    from bert_tf.export.demo_answers import ask, lists_of
    from bert_tf.export.export_folder import model_name

    def answer(*texts: str) -> list[Any]:
        shown, facts = ask(predictor, kind, texts)
        table = shown.table and _styled(shown.table)
        details = (shown.bars, shown.parts, table)
        updates = [gr.update(value=each, visible=each is not None) for each in details]
        return [shown.headline, *updates, facts]

    lists = lists_of(predictor, kind)
    labels = [f"{n}, one per line" if n in lists else n for n in predictor.names]
    return gr.Interface(
        answer,
        [gr.Textbox(label=label, lines=3) for label in labels],
        [
            gr.Textbox(label="answer"),
            gr.Label(label="probabilities", show_heading=False, visible=False),
            gr.HighlightedText(label="text", visible=False),
            gr.Dataframe(label="table", visible=False, wrap=True),
            gr.Textbox(
                label="facts", show_label=False, container=False, elem_id="facts"
            ),
        ],
        examples(predictor, kind),
        cache_examples=False,
        title=html.escape(FLAGS.title or model_name(FLAGS.model)),
        submit_btn="Predict",
        clear_btn=None,
        flagging_mode="never",
        analytics_enabled=False,
        concurrency_limit=1,
        api_visibility="private",
    )


def _styled(rows: Sequence[Sequence[Any]]) -> Any:
    """Returns a table, whose first row has the columns, with a color for each number."""
    import pandas as pd

    def color(cell: Any) -> str:
        share = 0 if isinstance(cell, str) else max(cell, 0)
        return f"background-color: rgba(96, 165, 250, {share:.2f})"

    return pd.DataFrame(rows[1:], columns=rows[0]).style.map(color).format(precision=2)


def run() -> None:
    """Entry point of the console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
