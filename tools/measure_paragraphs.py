"""Measures how long functions are divided: blank lines, comments and `# fmt: skip`.

    python -m tools.measure_paragraphs [--list] [folder ...]

Default: the folders of the product. A long function has a body of at least 20 lines of
code; its docstring does not count. With --list, the program then lists the long
functions without a blank line, and those without a comment.
"""

import argparse
import ast
import dataclasses
import io
import pathlib
import tokenize
from collections.abc import Iterator

from tools.count_lines import code_lines

_PRODUCT = ["bert_tf", "data_prep", "run_scripts"]
_MIN_LINES = 20
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclasses.dataclass(frozen=True)
class LongFunction:
    """A function of at least `_MIN_LINES` lines of code, and how it is divided."""

    place: str  # path:line name
    has_blank_line: bool
    has_comment: bool


class Module:
    """The lines of a module.

    Attributes:
        code: The numbers of the lines with code.
        blank: The numbers of the blank lines, except those in texts of several lines.
        comments: The comments, by the number of the line.
    """

    def __init__(self, path: pathlib.Path) -> None:
        source = path.read_text("utf-8")
        self.code = code_lines(source)
        self.blank: set[int] = set()
        self.comments: dict[int, str] = {}
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                self.comments[token.start[0]] = token.string
            elif token.type == tokenize.NL and not token.line.strip():
                self.blank.add(token.start[0])

        self._path, self._tree = path, ast.parse(source)

    def long_functions(self) -> Iterator[LongFunction]:
        """Yields the long functions and methods, also those inside of others."""
        for node in ast.walk(self._tree):
            if not isinstance(node, _FUNCTIONS):
                continue

            has_docstring = ast.get_docstring(node, clean=False) is not None
            body = node.body[1:] if has_docstring else node.body
            if not body:
                continue

            first, last = body[0].lineno, body[-1].end_lineno or 0
            lines = set(range(first, last + 1))
            if len(lines & self.code) < _MIN_LINES:
                continue

            # A comment above the first statement counts, a blank line there does not.
            signature_end = max(line for line in self.code if line < first)
            yield LongFunction(
                f"{self._path}:{node.lineno} {node.name}",
                has_blank_line=bool(lines & self.blank),
                has_comment=any(signature_end < line <= last for line in self.comments),
            )


def main() -> None:
    """Prints the figures, and with --list the functions."""
    parser = argparse.ArgumentParser(description="Measures how functions are divided.")
    parser.add_argument("folders", nargs="*", default=_PRODUCT, metavar="folder")
    parser.add_argument("--list", action="store_true", help="list the functions too")
    given = parser.parse_args()

    folders = [pathlib.Path(name) for name in given.folders]
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    modules = [Module(path) for path in paths]
    functions = [each for module in modules for each in module.long_functions()]
    comments = [text for module in modules for text in module.comments.values()]
    num_code_lines = sum(len(module.code) for module in modules)

    # The functions that have none of a kind.
    without = {
        "blank line": [each.place for each in functions if not each.has_blank_line],
        "comment": [each.place for each in functions if not each.has_comment],
    }

    print(f"functions of at least {_MIN_LINES} lines of code: {len(functions)}")
    for kind, places in without.items():
        share = 100 * len(places) / max(len(functions), 1)
        print(f"without a {kind}: {share:.0f} % ({len(places)} of {len(functions)})")
    print(f"# fmt: skip: {sum('fmt: skip' in text for text in comments)}")
    comments_per_100 = 100 * len(comments) / max(num_code_lines, 1)
    print(f"comment lines per 100 lines of code: {comments_per_100:.1f}")

    if given.list:
        for kind, places in without.items():
            print(f"\nwithout a {kind}:", *places, sep="\n  ")


if __name__ == "__main__":
    main()
