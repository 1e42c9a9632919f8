r"""Serves a page for the browser, to try an exported model.

    pip install '.[demo]'
    python run_scripts/demo.py --model=/models/mine
    python run_scripts/demo.py --model=/models/mine --examples=texts.csv --port=8000
    python run_scripts/demo.py --model=/models/mine --model=/models/mine/1/onnx/int8.onnx

The page shows what the model returns: bars for labels and choices, marks in the text
for answers and named entities, tokens for [MASK], and similarities for vectors. For
classifiers, it also marks the words that matter for the answer. Two models of the same
kind answer side by side. The page needs no connection to the internet. Only this
machine can open the page, unless --host gives another address. Ctrl-C ends the program.
"""

import os
import socket
import threading
from urllib.request import getproxies_environment

from absl import flags

from bert_tf.cli import shared_flags
from bert_tf.errors import InputError
from bert_tf.optional_packages import import_package
from bert_tf.program import command_line, config_flags, startup

FLAGS = flags.FLAGS
_HIGHEST_PORT = 65535
config_flags.define_path(
    "examples",
    "File with examples to click, as --input_file of predict.py: a text a line, or a "
    "table, with the right answers in a column named label. Default: the examples that "
    "the export contains; see --example_texts of export_model.py.",
)
config_flags.define_path(
    "checkpoint",
    "Output folder of the run that trained the model, for examples of its dev split.",
)
flags.DEFINE_string(
    "title", None, "Title of the page. Default: the name of the task or run."
)
flags.DEFINE_string("host", "127.0.0.1", "Address of the page; 0.0.0.0 for all.")
flags.DEFINE_integer(
    "port", 7860, "Port of the page.", lower_bound=1, upper_bound=_HIGHEST_PORT
)
shared_flags.define_exported_model_flags(several=True)


def main() -> None:
    """Serves the page until the program is interrupted."""
    check_flags()
    startup.import_tensorflow()
    import gradio as gr

    from bert_tf.cli.demo_page import make_page, read_examples
    from bert_tf.export.demo_model import load

    models = [load(path, FLAGS.trust, FLAGS.runtime) for path in FLAGS.model]
    examples = read_examples(models, FLAGS.examples, FLAGS.checkpoint)
    names = dict.fromkeys(model.name for model in models)
    page = make_page(models, FLAGS.title or " and ".join(names), examples)
    # gradio sends a request to its own page, and would send this request to a proxy.
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
    """Checks, without the model, that files exist, the port is free and gradio is installed."""
    shared_flags.check_paths_exist(*FLAGS.model, FLAGS.examples, FLAGS.checkpoint)
    import_package("gradio", "demo", "The page")
    try:
        socket.create_server((FLAGS.host, FLAGS.port)).close()
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise InputError(
            f"The page cannot be at {FLAGS.host}:{FLAGS.port}: {reason}. Give another "
            "--port or --host."
        ) from error


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
