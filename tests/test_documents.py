"""Documentation: links lead to files, lists are complete, no placeholder remains."""

import itertools
import json
import pathlib
import re
import shlex

import pytest
from run_programs import run_python

import bert_tf
from bert_tf.config import SIZES

ROOT = pathlib.Path(__file__).parent.parent
NAMES = [
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]  # fmt: skip
PYTHON_GUIDE = (ROOT / "docs/python.md").read_text("utf-8")
PROGRAMS = {
    path.stem: folder
    for folder in ("benchmarks", "data_prep", "run_scripts")
    for path in (ROOT / folder).glob("*.py")
}
# Parses commands with the flags of their programs, and prints an error for each that is
# refused.
PARSER = """
import importlib, json, os, re, sys
from absl import flags
for program, commands in json.load(sys.stdin).items():
    if os.fork():  # the programs define the same flags
        os.wait()
        continue
    importlib.import_module(program)
    for words, is_complete in commands:
        flags.FLAGS.unparse_flags()
        try:
            flags.FLAGS([program, *words])
        except flags.Error as error:
            if is_complete or not re.search("other than None|Missing value", str(error)):
                print(program, *words, error, flush=True)
    os._exit(0)
"""


def commands(text):
    """Yields each command of a text: program, flags, and whether no flag is left out.

    Commands are in blocks of code, and in code inside of a sentence, where flags may be
    left out.
    """
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    lines = [
        (line, True)
        for block in blocks
        for line in block.replace("\\\n", " ").split("\n")
    ]
    sentences = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.M | re.S)
    lines += [(code, False) for code in re.findall(r"`([^`\n]+)`", sentences)]
    for line, is_complete in lines:
        if not re.search(r"(\.py|bert-tf-[\w-]+) -", line):
            continue
        words = shlex.split(line)
        for number, word in enumerate(words):
            match = re.fullmatch(r"(?:.*/)?(\w+)\.py|bert-tf-([\w-]+)", word)
            if match and not word.startswith("tests/"):
                rest = itertools.takewhile(
                    lambda each: each[:2] == "--" != each, words[number + 1 :]
                )
                found = [each for each in rest if each != "--help"]
                complete = is_complete and "..." not in words and "--help" not in words
                yield (
                    match[1] or match[2].replace("-", "_"),
                    found,
                    complete and "--" not in words,
                )


def test_the_commands_have_flags_of_their_programs():
    by_program = {}
    for name in NAMES:
        for program, flags, is_complete in commands((ROOT / name).read_text("utf-8")):
            assert program in PROGRAMS, f"{name}: there is no program {program}"
            if PROGRAMS[program] != "benchmarks":  # these import TensorFlow
                module = f"bert_tf.{PROGRAMS[program]}.{program}"
                by_program.setdefault(module, []).append((flags, is_complete))
    assert sum(map(len, by_program.values())) > 50
    done = run_python("-c", PARSER, input=json.dumps(by_program))
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_existing_files(name):
    path = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
        if not re.match(r"https?:|mailto:|#", target):
            assert (path.parent / target.split("#")[0]).exists(), (
                f"{name} links to {target}"
            )


@pytest.mark.parametrize("name", [*NAMES, ".ci/run", "run_scripts/test.sh"])
def test_the_named_tests_exist(name):
    text = (ROOT / name).read_text("utf-8")
    for path, test in re.findall(r"\b(tests/[\w/]+\.py)(?:::(\w+))?", text):
        assert (ROOT / path).exists(), f"{name} names {path}"
        assert f"def {test}" in (ROOT / path).read_text("utf-8"), f"{name} names {test}"


@pytest.mark.parametrize("name", NAMES)
def test_no_placeholder_remains(name):
    assert not re.findall(
        r"@@\w*|\bTODO\b|\bTBD\b|\bXXX\b", (ROOT / name).read_text("utf-8")
    )


def test_the_guide_lists_the_released_sizes():
    table = re.findall(r"^\| (layers|hidden size) \| (.*) \|$", PYTHON_GUIDE, re.M)
    (names,) = re.findall(r"^\| \| (tiny .*) \|$", PYTHON_GUIDE, re.M)
    listed = zip(
        names.split(" | "), *(numbers.split(" | ") for _, numbers in table), strict=True
    )
    assert [(name, int(layers), int(hidden)) for name, layers, hidden in listed] == [
        (name, layers, hidden) for name, (hidden, layers, *_) in SIZES.items()
    ]


def test_the_index_lists_every_document():
    listed = set(
        re.findall(r"\]\(([^/)]+)\)", (ROOT / "docs/README.md").read_text("utf-8"))
    )
    files = {
        path.name
        for path in (ROOT / "docs").glob("*")
        if path.suffix in (".md", ".ipynb")
    }
    assert listed == files - {"README.md", "index.md"}
    pages = re.findall(r"^(\w+)$", (ROOT / "docs/index.md").read_text("utf-8"), re.M)
    assert sorted(pages) == sorted(name.split(".")[0] for name in listed)


def test_the_reference_lists_every_public_name():
    text = (ROOT / "docs/api.md").read_text("utf-8")
    listed = re.findall(r"^\.\. auto\w+:: bert_tf\.(\w+)$", text, re.M)
    assert sorted(listed) == sorted(bert_tf.__all__)


def test_the_files_that_the_architecture_names_exist():
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    names = set(re.findall(r"`([\w/]+\.py)`", text))
    missing = [
        name
        for name in names
        if not any((ROOT / folder / name).exists() for folder in ("", "bert_tf"))
    ]
    # Some sentences name a file of the folder that was named before.
    assert names and not [each for each in missing if "/" in each]
