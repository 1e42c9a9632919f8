"""A docstring in, its prose out: no code, tables, directives or markup.

Knows the four ways docstrings are written: plain text, reStructuredText (NumPy's sections and
Sphinx's fields), Google's sections, and Markdown. Pure functions; imports nothing of ours.
"""

import html
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Stands where something that is not prose was (a formula, an address): the sentence is dropped.
GAP = "\ufffc"


@dataclass(frozen=True)
class Paragraph:
    """A run of prose.

    Attributes:
        text: One line; an argument's description begins with its name and a colon.
        code: Where words of `text` are code, as [start, end) in characters.
        argument: The name of the argument it begins to describe, else "".
    """

    text: str
    code: tuple[tuple[int, int], ...]
    argument: str = ""


# --- Sections ---------------------------------------------------------------------------------

_ARGUMENTS = {
    *("args", "arg", "arguments", "parameters", "other parameters", "keyword arguments", "params"),
    *("keyword args", "kwargs", "call arguments", "init args", "parameter"),
}
# Described like arguments, but nothing that is passed.
_OTHERS = {"attributes", "properties", "fields"}
_TERMS = ("arguments", "others")
_RESULTS = {"returns", "return", "yields", "raises", "warns", "receives", "result", "results"}
_SKIPPED = {
    *("see also", "references", "reference", "methods", "functions", "classes", "todo", "author"),
    *("authors", "license", "input shape", "output shape", "input shapes", "output shapes"),
    *("contents", "index", "copyright", "routine listings", "exceptions", "objects", "usage"),
}
_UNDERLINE = re.compile(r"\s*([-=~^*#])\1{2,}\s*$")
_GOOGLE_HEADER = re.compile(r"(\s*)([A-Z][A-Za-z ]{2,24}):\s*$")
_MARKDOWN_HEADER = re.compile(r"\s*#{1,5}\s+\S")
_GOOGLE_ENTRY = re.compile(r"`{0,2}(\*{0,2}\w[\w.]*)`{0,2}\s*(?:\([^()]*\))?\s*:\s+(?=\S)")
_NUMPY_ENTRY = re.compile(
    r"`{0,2}(\*{0,2}\w[\w.]*)`{0,2}(?:\s*,\s*[*`\w.]+)*\s*(?::.*|\([^)]*\))?$"
)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\ud800-\udfff\ue000-\uf8ff]")
_FENCED = re.compile(r"^[ >]*(```|~~~).*?(?:^[ >]*\1[^\n`]*$|\Z)", re.M | re.S)


def clean(docstring: str) -> tuple[Paragraph, ...]:
    """The prose of a docstring, paragraph by paragraph, in order."""
    text = _UNPRINTABLE.sub(GAP, docstring.expandtabs())
    text = _FENCED.sub("", inspect.cleandoc(text))
    found = []
    for kind, term, lines in _entries(text.splitlines()):
        for field, paragraph in _paragraphs(lines):
            name, term = (field or term).lstrip("*"), ""
            is_argument = bool(field) or kind.endswith("arguments")
            plain, code = inline(f"`{name}`: {paragraph}" if name else paragraph)
            if plain:
                found.append(Paragraph(plain, code, name if is_argument else ""))
    return tuple(found)


def _entries(lines: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Runs of lines, each with the kind of its section and the term that it describes or ""."""
    start = 0
    section, indent = "", 0
    for at in range(len(lines) + 1):
        header = _header(lines, at) if at < len(lines) else ("", 0, 0)
        if header is None and at < len(lines):
            continue
        for term, body in _section(section, indent, lines[start:at]):
            yield section, term, body
        if header is not None:
            section, indent, used = header
            start = at + used


def _header(lines: list[str], at: int) -> tuple[str, int, int] | None:
    """(Kind of the section that begins here, indent of its body's head lines, lines used)."""
    line = lines[at]
    if not line.strip():
        return None
    indent = _indent(line)
    if at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1]) and len(line.strip()) < 60:
        return _kind(line, "numpy"), indent, 2
    match = _GOOGLE_HEADER.match(line)
    if match and _kind(match[2], "google") != "prose":
        return _kind(match[2], "google"), indent, 1
    if _MARKDOWN_HEADER.match(line):
        return _kind(line.strip(" #:"), "google"), indent, 1
    return None


def _kind(title: str, style: str) -> str:
    title = title.strip(" :#*").lower()
    if title in _ARGUMENTS:
        return f"{style} arguments"
    if title in _OTHERS:
        return f"{style} others"
    if title in _RESULTS:
        return f"{style} results"
    return "skipped" if title in _SKIPPED else "prose"


def _section(kind: str, indent: int, lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    if kind == "skipped":
        # Google's skipped sections end where the indentation does.
        rest = next((i for i, s in enumerate(lines) if s.strip() and _indent(s) <= indent), None)
        if rest is not None and rest > 0:
            yield "", lines[rest:]
    elif kind.startswith("numpy "):
        yield from _numpy_entries(lines, indent, kind)
    elif kind.startswith("google "):
        yield from _google_entries(lines, indent, kind)
    else:
        yield "", lines


def _numpy_entries(lines: list[str], indent: int, kind: str) -> Iterator[tuple[str, list[str]]]:
    name = ""
    body: list[str] = []
    for line in lines:
        head = _NUMPY_ENTRY.match(line.strip()) if line.strip() else None
        if line.strip() and _indent(line) <= indent:
            yield name, body
            name = head[1] if head and kind.endswith(_TERMS) else ""
            body = [] if head else [line]
        else:
            body.append(line)
    yield name, body


def _google_entries(lines: list[str], indent: int, kind: str) -> Iterator[tuple[str, list[str]]]:
    name = ""
    body: list[str] = []
    inside = min((_indent(s) for s in lines if s.strip() and _indent(s) > indent), default=0)
    for line in lines:
        depth = _indent(line)
        head = _GOOGLE_ENTRY.match(line.lstrip(" -*")) if line.strip() and depth <= inside else None
        if head and depth > indent and kind.endswith(_TERMS):
            yield name, body
            text = line.lstrip(" -*")
            name, body = head[1], [" " * (inside + 2) + text[head.end() :]]
        elif line.strip() and depth <= inside and kind.endswith(_TERMS):
            yield name, body
            name, body = "", [line]
        else:
            body.append(line)
    yield name, body


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# --- Paragraphs -------------------------------------------------------------------------------

_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)]|\([a-z\d]\))\s+(?=\S)")
_FIELD = re.compile(r"\s*[:@](?:param|arg|parameter|keyword|key)\s+(?:[\w.\[\]| ]+ )?([*\w]+):\s*")
_OTHER_FIELD = re.compile(r"\s*[:@](\w+)(?:\s+[^:]*)?:(?!`)\s*")
_DIRECTIVE = re.compile(r"\s*\.\.\s+(?:([\w:-]+)::\s*(.*))?")
_KEPT_DIRECTIVES = {"note", "warning", "tip", "important", "caution", "hint", "attention"}
_RULE = re.compile(r"[\s=+|\-~^*#_.]{3,}$")
_TABLE = re.compile(r"^\s*[|+]|\S {3,}\S|\s\|\s|\t|^\s*\w+ {2,}-{0,2} {0,2}\w")
_CODE = re.compile(
    r"^\s*(?:>>>|\.\.\.|\$ |#|@\w|import \w|from \w+ import|def \w|class \w+[:(]|return\b|print\(|"
    r"for \w+ in |if .*:$|with .*:$|%|<\w|\{|\[|\w+(?:\.\w+)* ?[-+*/|]?= ?\S|\w[\w.]*\([^ ]*\)$)"
)


def _paragraphs(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Paragraphs of prose, each with the argument that a Sphinx field names or ""."""
    for name, block in _blocks(lines):
        text = " ".join(line.strip() for line in block)
        codelike = sum(bool(_CODE.match(line)) for line in block) * 2 > len(block)
        if text and not codelike and not any(_TABLE.search(line) for line in block):
            yield name, text


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Groups lines; leaves out doctests, literal blocks, directives and rules."""
    name = ""
    block: list[str] = []
    skip_deeper_than: int | None = None
    doctest = False
    for line in [*lines, ""]:
        depth = _indent(line)
        if not line.strip():
            doctest = False
            if block:
                yield name, block
                if block[-1].rstrip().endswith("::"):
                    skip_deeper_than = _indent(block[0])
            name, block = "", []
            continue
        if doctest or (skip_deeper_than is not None and depth > skip_deeper_than):
            continue
        skip_deeper_than = None
        directive = _DIRECTIVE.match(line)
        field, other = _FIELD.match(line), _OTHER_FIELD.match(line)
        starts = directive or field or other or _BULLET.match(line) or _RULE.match(line)
        doctest = line.lstrip().startswith(">>>")
        if block and (starts or doctest or _breaks(block, depth)):
            yield name, block
            name, block = "", []
        if directive:
            if directive[1] not in _KEPT_DIRECTIVES:
                skip_deeper_than = depth
            elif directive[2]:
                block = [directive[2]]
        elif field:
            name, block = field[1], [" " * depth + line[field.end() :]]
        elif other:
            keep = other[1] in ("return", "returns")
            block = [" " * depth + line[other.end() :]] if keep else []
            skip_deeper_than = None if keep else depth
        elif not doctest and not _RULE.match(line):
            bullet = _BULLET.match(line)
            block.append(" " * bullet.end() + line[bullet.end() :] if bullet else line)


def _breaks(block: list[str], depth: int) -> bool:
    """Whether a line of this indentation begins another paragraph."""
    last = _indent(block[-1])
    if depth == last:
        return False
    ended = block[-1].rstrip().endswith((".", ":", "?", "!"))
    # A term and, deeper on the next line, its definition.
    is_term = depth > last and len(block) == 1 and len(block[0].split()) <= 3
    return is_term or (ended and (len(block) > 1 or depth > last))


# --- Inline markup ----------------------------------------------------------------------------

_TEXT_ROLES = {"ref", "doc", "term", "abbr", "sub", "sup", "emphasis", "strong", "dfn", "guilabel"}
_HTML = re.compile(r"</?(?:p|b|i|br|code|a|ul|ol|li|em|strong|tt|pre|sub|sup|div|span)\b[^>]*>")
_INLINE = re.compile(
    r"(?P<gap>:math:`[^`]*`|\$\$.*?\$\$|\$[^$\s][^$]*\$|\\\(.*?\\\)|\\\[.*?\\\]|!\[[^]]*\]\([^)]*\)"
    r"|(?:https?|ftp|file)://\S+|\bwww\.\S+|\|\w+\||%\(\w+\)s|\{\w+\}|<[\w.+-]+@[\w.-]+>"
    # A citation that is part of the sentence cannot be left out.
    r"|\b(?:[Ii]n|[Ss]ee|of|by|from|with|and|to|on|than)\s\[[\w*#+,-]+\]_)"
    r"|:(?P<role>[\w:+-]+):`(?P<target>[^`]+)`"
    r"|``(?P<literal>.+?)``"
    r"|`(?P<link>[^`<]+?)\s*<[^`>]+>`__?"
    r"|`(?P<quoted>[^`]+)`(?P<reference>__?\b)?"
    r"|\[(?P<label>[^]\[]+)\](?:\([^)\s]+\)|\[[^]]*\])"
    r"|(?P<citation>\s?\[[\w*#+,-]+\]_\b)"
    r"|(?<![\w*])(?P<stars>\*{1,2})(?P<bold>[^\s*](?:[^*]*[^\s*])?)(?P=stars)(?![\w*])"
    r"|(?<!\w)_(?P<italic>[A-Za-z][^_]*[A-Za-z])_(?!\w)"
    r"|\\(?P<escaped>[*_`|<>\\])"
    r"|(?P<compatibility>@(?:end_)?compatibility(?:\([^)]*\))?)"
)


def inline(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Plain text and the places in it that were marked as code.

    Args:
        text: One paragraph with inline markup of reStructuredText or Markdown.

    Returns:
        The text with single spaces, `GAP` where something unreadable stood, and the code's
        [start, end) in it.
    """
    pieces: list[str] = []
    code: list[tuple[int, int]] = []
    length = 0
    for piece, is_code in _pieces(" ".join(_HTML.sub("", html.unescape(text)).split())):
        if not pieces or pieces[-1].endswith(" "):
            piece = piece.lstrip(" ")
        if not piece:
            continue
        if is_code:
            code.append((length, length + len(piece)))
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces).rstrip(), tuple(code)


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    end = 0
    for match in _INLINE.finditer(text):
        yield text[end : match.start()], False
        end = match.end()
        if match["gap"]:
            yield GAP, False
        elif match["role"]:
            yield from _role(match["role"], match["target"])
        elif match["literal"] or match["quoted"]:
            yield from _literal(match["literal"] or match["quoted"], bool(match["reference"]))
        elif match["label"] or match["bold"] or match["italic"]:
            yield from _pieces(match["label"] or match["bold"] or match["italic"])
        elif match["link"] or match["escaped"]:
            yield match["link"] or match["escaped"], False
    yield text[end:], False


def _role(role: str, target: str) -> Iterator[tuple[str, bool]]:
    name = role.rsplit(":", 1)[-1]
    titled = re.fullmatch(r"(.+?)\s*<.+>", target)
    shown = titled[1] if titled else target.lstrip("!")
    if name in ("pep", "rfc"):
        yield f"{name.upper()} {shown}", False
    elif name in _TEXT_ROLES:
        yield (GAP if not titled and "_" in shown else shown), False
    else:
        shown = shown.rsplit(".", 1)[-1] if shown.startswith("~") else shown
        yield from _literal(shown, False)


def _literal(content: str, is_link: bool) -> Iterator[tuple[str, bool]]:
    content = content.strip()
    if "`" in content or "://" in content:
        yield GAP, False
    elif is_link or len(content.split()) > 6:
        yield content, False
    else:
        yield content, bool(content)
