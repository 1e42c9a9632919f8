"""Counts lines and tokens of code: without docstrings, comments and blank lines.

python tools/count_lines.py [folder of a checkout]

Size is compared in tokens, so that blank lines, line breaks and comments cost nothing.
"""

import ast
import io
import pathlib
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator

_PRODUCT = ("bert_tf", "data_prep", "run_scripts")
_OTHERS = ("tests", "benchmarks", "tools")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_LONG_CALL = 6  # arguments
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


def docstring_lines(source: str) -> int:
    """Returns the number of lines of docstrings in the source of a module."""
    nodes = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, _WITH_DOCSTRING)
    ]
    texts = [ast.get_docstring(node, clean=False) for node in nodes]
    return sum(len(text.splitlines()) for text in texts if text)


def long_calls(sources: Iterable[str]) -> int:
    """Returns the number of calls with six or more arguments without their names.

    Only calls of the functions and classes in the sources count, without those that
    take any number of arguments.
    """
    trees = [ast.parse(source) for source in sources]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    own = classes | {node.name for node in functions}
    own -= {node.name for node in functions if node.args.vararg}
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and len(node.args) >= _LONG_CALL
    ]
    names = [getattr(node.func, "attr", getattr(node.func, "id", "")) for node in calls]
    return sum(name in own for name in names)


def main() -> None:
    """Prints lines and tokens of each package, and figures of the product's style."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    lines: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    product = {}

    for folder in (*_PRODUCT, *_OTHERS):
        for path in sorted((root / folder).rglob("*.py")):
            source = path.read_text("utf-8")
            if folder in _PRODUCT:
                product[path] = source
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

    documented = sum(map(docstring_lines, product.values()))
    clauses = [path for path in product if re.search("_(and|or)_", path.name)]
    print(f"product: {100 * documented / lines['product']:.0f} lines of docstrings for")
    print(f"100 lines of code; {len(clauses)} modules named with and or or;")
    print(f"{long_calls(product.values())} calls with six positional arguments or more")


if __name__ == "__main__":
    main()
