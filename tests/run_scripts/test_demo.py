"""demo.py: refused flags, and each page in a browser."""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

import export_models
import pytest
import requests
from run_programs import assert_each_refused, assert_refused, run_main

import bert_tf

DEMO = "bert_tf.run_scripts.demo"
PREDICT = "bert_tf.run_scripts.predict"
EXPORT = "bert_tf.run_scripts.export_model"
# The files in which libraries keep an identifier.
IDENTIFIERS = re.compile("onnxruntime|openvino_ga_cid")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HTML = "a <img src=x onerror=\"document.title='run'\"> b"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_what_is_absent_is_named(here):
    (model,) = run_main(DEMO, ["--model=absent"])
    assert_refused(model, "There is no file or folder 'absent'")
    if importlib.util.find_spec("gradio") is None:
        (package,) = run_main(DEMO, ["--model=."])
        assert_refused(package, "pip install 'bert-tf[demo]'")


@pytest.mark.medium
def test_bad_input(here):
    pytest.importorskip("gradio", exc_type=ImportError)
    (here / "damaged").mkdir()
    (here / "damaged/saved_model.pb").write_bytes(b"x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = str(server.getsockname()[1])
        cases = [
            (f"--port={free_port()}", "damaged"),
            (f"--port={used}", used, "in use. Give another --port"),
            ("--port=70000", "--port=70000"),
            ("--examples=absent", "There is no file or folder 'absent'"),
            ("--host=no.such.host.invalid", "host.invalid", "another --port or --host"),
        ]
        assert_each_refused(DEMO, "--model=damaged", cases)


@pytest.mark.medium
def test_without_gradio(here, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(here))
    contents = {
        "raise ImportError('SOCKS\\n.')": "cannot be imported: SOCKS .",
        "import absent_part": "cannot be imported: No module named 'absent_part'.",
        "raise ModuleNotFoundError(name='gradio')": "is not installed.",
    }
    for content, problem in contents.items():
        (here / "gradio.py").write_text(content)
        (result,) = run_main(DEMO, ["--model=."])
        assert_refused(
            result, f"gradio, which {problem}", "pip install 'bert-tf[demo]'"
        )


@contextlib.contextmanager
def served_page(model, *flags, start=()):
    """Yields the address of the page of a model; ends the program with Ctrl-C."""
    port = free_port()
    command = [sys.executable, "-m", DEMO, f"--model={model}", f"--port={port}", *flags]
    process = subprocess.Popen(
        [*start, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the signals reach also what `start` runs
    )
    try:
        line = process.stdout.readline()
        assert "The page is at http" in line, process.communicate()
        yield f"http://127.0.0.1:{port}"
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 128 + signal.SIGINT
        assert "Traceback" not in errors, errors
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def browser():
    """A browser that records errors and the addresses that it loads."""
    playwright = pytest.importorskip("playwright.sync_api", exc_type=ImportError)
    pytest.importorskip("gradio", exc_type=ImportError)
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


class Page:
    """A page in the browser."""

    def __init__(self, browser, address):
        self.page = browser.new_page(viewport={"width": 1100, "height": 620})
        self.errors, self.loaded = [], []
        self.timeout = importlib.import_module("playwright.sync_api").TimeoutError
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on("request", lambda request: self.loaded.append(request.url))
        self.page.goto(address)
        self.page.get_by_role("button", name="Predict").wait_for()

    def _on_console(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def ask(self, *texts, expected=""):
        """Types texts, and returns the headline, when the page has an expected text."""
        boxes = self.page.locator("textarea:not([disabled])")
        for number, text in enumerate(texts):
            boxes.nth(number).fill(text)
        before = self.facts()
        self.page.get_by_role("button", name="Predict").click()
        with contextlib.suppress(self.timeout):  # of two answers with the same facts
            self.page.wait_for_function(
                "before => document.querySelector('#facts textarea').value !== before",
                arg=before,
                timeout=5_000,
            )
        self.page.wait_for_function(
            "text => document.body.innerText.replaceAll(/\\s+/g, ' ').includes(text)",
            arg=expected,
            timeout=10_000,
        )
        return self.page.get_by_label("answer").input_value()

    def facts(self):
        return self.page.locator("#facts textarea").input_value()


# The texts for each kind of model, and what the page then shows.
TEXTS = {
    "classification": (["a b c"], "y, z"),
    "pair": (["a b", HTML], "y, z"),
    "multi_label": (["a"], "y, z"),
    "regression": (["a b"], ""),
    "span": (["a", "b c d"], "b c d"),
    "tagging": (["a b c d " + HTML], "onerror"),
    "choice": (["a", f"b\n{HTML}\n"], "onerror"),
    "fill_mask": (["a [MASK] b [MASK]"], "[MASK] 2"),
    "embedding": ([f"a\nb\n{HTML}"], "onerror"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", export_models.KINDS)
def test_the_page_answers_in_a_browser(browser, exported, kind, tmp_path):
    texts, expected = TEXTS[kind]
    with served_page(exported(kind), "--title=mine") as address:
        page = Page(browser, address)
        assert page.ask(*texts, expected=expected)
        assert "tokens" in page.facts()
        # Text is shown, and not run.
        assert page.page.title() == "mine"
        assert page.page.locator("img[onerror]").count() == 0

        page.page.screenshot(path=tmp_path / f"{kind}.png")
        page.ask(*("" for _ in texts))  # also without a text
        assert not page.errors
        assert all(url.startswith((address, "data:", "blob:")) for url in page.loaded)


@pytest.mark.slow
def test_two_models_and_the_words_that_matter(browser, exported, tmp_path):
    folder = exported("classification")
    examples = tmp_path / "examples.csv"
    examples.write_text("text,label\na b c,x\nd e,ž\nf <b>g</b>,nothing\n")
    second = f"--model={folder}/tflite/float32.tflite"
    with served_page(folder, second, f"--examples={examples}") as address:
        page = Page(browser, address)
        assert page.page.title() == "classification"
        assert page.page.get_by_text("3 labels (x, y, z, ž)").count() == 2
        answers = bert_tf.Predictor(folder)(["a b c", "d e", "f <b>g</b>"])
        for answer, right in zip(answers, ("x", "ž", "nothing"), strict=True):
            # An unknown label is no right answer.
            mark = "" if right in (answer["label"], "nothing") else "✗ "
            text = f"{mark}{answer['label']} {answer['probability']:.4f}"
            page.page.get_by_text(text, exact=True).nth(1).wait_for()  # of both models

        page.page.get_by_text("f <b>g</b>").first.click()
        page.page.get_by_role("button", name="What matters").click()
        page.page.wait_for_function(
            "[...document.querySelectorAll('#facts textarea')].every("
            "each => each.value.includes('the probability of the best label changes'))"
        )
        page.page.get_by_role("button", name="Model card").first.click()
        page.page.get_by_text("SHA-256 of the vocabulary").first.wait_for()
        assert not page.errors


@pytest.mark.slow
def test_the_second_best_answer_is_shown_on_click(browser, exported):
    with served_page(exported("span")) as address:
        page = Page(browser, address)
        page.ask("a", "b c d", expected="b c d")
        page.page.locator(".token.highlighted").click()
        page.page.wait_for_function(
            "document.querySelector('#facts textarea').value.startsWith('without this')"
        )


@pytest.mark.slow
def test_long_texts_and_files(browser, exported, tmp_path):
    folder = exported("classification")
    (tmp_path / "secret.txt").write_text("secret")
    examples = tmp_path / "examples.csv"
    examples.write_text("id,text\n1,a b\n2,<b>c</b>\n")
    with served_page(folder, f"--examples={examples}") as address:
        page = Page(browser, address)
        page.page.get_by_text("<b>c</b>").click()
        page.page.wait_for_function(
            "() => document.querySelector('textarea').value === '<b>c</b>'"
        )
        page.ask("a " * 100)
        assert page.facts().endswith("its rest was not read")

        assert page.ask("a" * 1_000_000).startswith("The page takes at most")
        assert page.ask("a")  # the page goes on

        # Nothing of the machine is served, and nothing is uploaded.
        content = {"files": ("a.txt", b"1")}
        answer = requests.post(f"{address}/gradio_api/upload", files=content)
        assert answer.status_code == 413
        for path in (tmp_path / "secret.txt", "/etc/passwd", os.path.abspath(folder)):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"{address}/gradio_api/file={path}")


@pytest.mark.slow
def test_nothing_leaves_the_machine(exported, tmp_path, monkeypatch):
    """The programs that run libraries with telemetry, in a new home folder."""
    folder = exported("classification", "onnx")
    checkpoint, _ = export_models.write_checkpoint("classification", tmp_path / "a")
    for name in ("CI", "ORT_DISABLE_TELEMETRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # there is none
    file = f"{folder}/onnx/float32.onnx"
    log = tmp_path / "calls"
    log.touch()
    strace = f"strace -Aqqf --seccomp-bpf -e trace=connect,sendto,sendmmsg -o {log}"
    start = strace.split() if shutil.which("strace") else []

    commands = [
        ["-m", PREDICT, f"--model={file}", "--text=a"],
        ["-m", PREDICT, f"--model={file}", "--text=a", "--runtime=openvino"],
        ["-m", EXPORT, f"--checkpoint={checkpoint}", "--export_dir=b", "--format=onnx"],
        [f"{folder}/assets.extra/onnx_client.py", file, "a"],
    ]
    for command in commands:
        subprocess.run([*start, sys.executable, *command], cwd=tmp_path, check=True)
    with served_page(file, start=start):
        pass

    assert not [each for each in tmp_path.rglob("*") if IDENTIFIERS.search(each.name)]
    # Port 53 is that of a server of names.
    others = r'htons\(53\)|inet_addr\("(?!127\.)|AF_INET6, "(?!::1")'
    assert not re.search(others, log.read_text())
