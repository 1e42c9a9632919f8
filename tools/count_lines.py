"""Counts lines of code: without docstrings, comments and blank lines.

python tools/count_lines.py [folder of a checkout]
"""

import ast
import io
import pathlib
import sys
import tokenize

_FOLDERS = (
    "bert_tf/*.py", "bert_tf/tokenization", "bert_tf/masking", "bert_tf/modeling",
    "bert_tf/training", "bert_tf/pretraining", "bert_tf/tasks", "bert_tf/feature_extraction",
    "bert_tf/conversion", "bert_tf/export", "data_prep", "run_scripts",
)  # fmt: skip
_OTHERS = ("tests", "benchmarks", "tools")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(source: str) -> int:
    """Returns the number of lines of code in the source of a module."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def main() -> None:
    """Prints the lines of code of each package, of all programs, and of the tests."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    total = 0
    for name in (*_FOLDERS, *_OTHERS):
        files = root.glob(name if name.endswith(".py") else f"{name}/**/*.py")
        lines = sum(code_lines(path.read_text("utf-8")) for path in files)
        total += lines * (name in _FOLDERS)
        if name == _OTHERS[0]:
            print(f"{total:7,}  sum")
        print(f"{lines:7,}  {name}")


if __name__ == "__main__":
    main()
