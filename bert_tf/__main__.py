"""Lists the installed programs: `python -m bert_tf`."""

import ast
import importlib.metadata
import importlib.util
import pathlib


def main() -> None:
    """Prints the version, and the name and purpose of each program."""
    package = importlib.metadata.distribution("bert-tf")
    print(
        f"bert-tf {package.version}: a complete BERT for TensorFlow and Keras 3.\n\n"
        "Programs:"
    )
    scripts = package.entry_points.select(group="console_scripts")
    for script in sorted(scripts, key=lambda script: script.name):
        print(f"  {script.name:34s}{_purpose(script.module)}")
    print("\nEach program describes its flags with --help. In Python: import bert_tf.")


def _purpose(module: str) -> str:
    """Returns the first line of a module's docstring, without importing the module."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    tree = ast.parse(pathlib.Path(spec.origin).read_text("utf-8"))
    return (ast.get_docstring(tree) or "").split("\n")[0]


if __name__ == "__main__":
    main()
