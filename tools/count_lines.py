"""Counts lines and tokens of code: without docstrings, comments and blank lines.

python tools/count_lines.py [folder of a checkout]

Size is compared in tokens, so that blank lines, line breaks and comments cost nothing.
"""

import ast
import io
import pathlib
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator

_PRODUCT = ("bert_tf", "data_prep", "run_scripts")
_OTHERS = ("tests", "benchmarks", "tools")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    """Yields a module's tokens without docstrings, comments, line ends, indents."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, _WITH_DOCSTRING)
            and ast.get_docstring(node, clean=False) is not None
        ):
            first = node.body[0]
            docstrings.update(
                range(first.lineno, (first.end_lineno or first.lineno) + 1)
            )

    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE and token.start[0] not in docstrings:
            yield token


def code_lines(source: str) -> set[int]:
    """Returns the numbers of the lines of code in the source of a module."""
    found: set[int] = set()
    for token in code_tokens(source):
        found.update(range(token.start[0], token.end[0] + 1))
    return found


def main() -> None:
    """Prints lines and tokens of each package, the product, and tests and tools."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    lines: Counter[str] = Counter()
    tokens: Counter[str] = Counter()

    for folder in (*_PRODUCT, *_OTHERS):
        for path in sorted((root / folder).rglob("*.py")):
            source = path.read_text("utf-8")
            # The first two folders: bert_tf/tasks for
            # bert_tf/tasks/squad/squad_task.py.
            package = "/".join(path.relative_to(root).parts[:-1][:2])
            name = package if folder in _PRODUCT else folder
            for each in [name, *(["product"] if folder in _PRODUCT else [])]:
                lines[each] += len(code_lines(source))
                tokens[each] += sum(1 for _ in code_tokens(source))

    print("  lines   tokens")
    for name in lines:
        print(f"{lines[name]:7,} {tokens[name]:8,}  {name}")


if __name__ == "__main__":
    main()
