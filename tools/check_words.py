"""Checks that tracked files do not contain words that readers found unclear.

The lint step runs this program. For each unclear word the program prints the file, the
line and the words to use instead. It exits with code 1 if it finds an unclear word.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
SUFFIXES = {".py", ".md", ".ipynb", ".sh", ".toml", ".yaml"}
# Keys: regular expressions of unclear words. Values: the words to use instead.
WORDS = {
    r"\bbut for\b": "except",
    r"\bbeside\b": "next to, in the same folder as, compared with",
    r"\banew\b": "again",
    r"\bhand(s|ed|ing)? on\b": "pass, save, export",
    r"\bwhole or not at all\b": "atomically",
    r"\b(go|goes|going|gone) on with\b": "continue, resume",
    r"\bas the flags? says?\b": "a verb that states the action",
    r"\bit cannot be[.,]": "the reason",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bof ours\b": "of bert-tf",
    r"\b(of|in) one's own\b": "of your own, of the user",
    r'"""(What|Where|How) ': "a noun or a verb",
}


def main() -> None:
    """Checks all tracked files except this one."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = 0
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (
            path.suffix not in SUFFIXES
            or path == pathlib.Path(__file__)
            or not path.exists()
        ):
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            for pattern, remedy in WORDS.items():
                match = re.search(pattern, line, re.IGNORECASE)
                if match:
                    print(f"{name}:{number}: {match[0]!r}: use {remedy}")
                    found += 1
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
