"""Makes pictures in the guides, with the commands that stand above them.

    .venv/bin/python -m tools.make_pictures FOLDER [PICTURE ...]

The commands run in FOLDER, which must contain `quickstart_output`, the output of
run_scripts/quickstart.sh, and `served`, an export of a run of run_ner.py with
--example_texts=8. PICTURE is a name such as demo_tagging.png; by default, all pictures
are made. This program requires the extra "ci", and Chromium.
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).parent.parent
# The address of each program, and the words that start it.
PROGRAMS = {
    "demo.py": ("http://127.0.0.1:7860", [str(ROOT / "run_scripts/demo.py")]),
    "tensorboard": ("http://127.0.0.1:6006", ["-m", "tensorboard.main"]),
}
_MILLIS = 8_000  # until a page shows everything


def command_above(guide: str, picture: str, program: str) -> list[str]:
    """Returns the last command with a program before a picture."""
    text, _, _ = (ROOT / guide).read_text("utf-8").partition(f"images/{picture})")
    lines = re.findall(rf"^.*\b{re.escape(program)} .*$", text, re.MULTILINE)
    options = [word for word in shlex.split(lines[-1]) if word.startswith("--")]
    return [sys.executable, *PROGRAMS[program][1], *options]


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Waits until the server that the process runs answers."""
    while True:
        try:
            urllib.request.urlopen(address).close()
            return
        except urllib.error.URLError:
            if process.poll() is not None:
                raise
            time.sleep(0.5)


def show_curves(page: Any) -> None:
    """Shows the curves of losses and accuracies on the page of TensorBoard."""
    page.get_by_role("button", name="Pin card").first.wait_for()
    page.wait_for_timeout(_MILLIS)
    page.get_by_role("button", name="Toggle settings side pane").click()
    tags = page.get_by_placeholder("Filter tags (regex)").first
    tags.click()
    tags.press_sequentially("accuracy|loss")
    tags.press("Enter")
    page.wait_for_timeout(_MILLIS)


def ask_model(page: Any, row: int) -> None:
    """Asks the model on the page of the demo for the example `row`."""
    page.get_by_role("button", name="Predict").wait_for()
    page.locator("tbody tr:visible").nth(row).click()
    for name in ("Predict", "What matters"):
        button = page.get_by_role("button", name=name)
        if button.is_visible():
            button.click()
            page.wait_for_timeout(_MILLIS)


# The guide of each picture, its program, and what makes the page ready.
PICTURES: dict[str, tuple[str, str, Callable[[Any], None]]] = {
    "demo_classification.png": ("README.md", "demo.py", partial(ask_model, row=3)),
    "demo_tagging.png": ("docs/serving.md", "demo.py", partial(ask_model, row=0)),
    "tensorboard.png": ("README.md", "tensorboard", show_curves),
}


def main(folder: str, names: Sequence[str]) -> None:
    """Makes the named pictures, by default all."""
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name in names or PICTURES:
            guide, program, prepare = PICTURES[name]
            address, _ = PROGRAMS[program]
            command = command_above(guide, name, program)
            with subprocess.Popen(command, cwd=folder) as process:
                try:
                    wait_for(address, process)
                    page = browser.new_page(viewport={"width": 1100, "height": 620})
                    page.goto(address)
                    prepare(page)
                    path = ROOT / "docs/images" / name
                    page.screenshot(path=path, full_page=True)
                finally:
                    process.terminate()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
