"""Extracts the prose of a docstring, without code, tables, directives and markup.

Supports plain text, reStructuredText (NumPy's sections and Sphinx's fields), Google's
sections, and Markdown. Code without markup is not removed here; `sentences.is_prose`
rejects sentences that contain such code. All functions are pure.
"""

import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Replaces a formula or a URL in a paragraph. Sentences that contain this character are
# dropped.
GAP = "\ufffc"


@dataclass(frozen=True)
class Text:
    """A paragraph of prose, or one of its sentences.

    Attributes:
        text: The text, on one line. The description of an argument begins with the
            argument's name and a colon.
        code: The [start, end) positions of code in `text`, in characters.
    """

    text: str
    code: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Document:
    """The prose of one docstring.

    `library` is the name of a distribution, or "python" for the standard library.
    `texts` are paragraphs; after `sentences.split_into_sentences`, they are sentences.
    """

    library: str
    texts: tuple[Text, ...]


def extract_prose(docstring: str) -> tuple[Text, ...]:
    """Returns the paragraphs of prose of a docstring, in their order."""
    text = _CODE_BLOCK.sub("", inspect.cleandoc(docstring))
    prose = []
    for section in _sections(text.splitlines()):
        for term, lines in _entries(section):
            for field, paragraph in _paragraphs(lines):
                name = field or term
                term = ""
                plain, code = strip_inline_markup(
                    f"`{name}`: {paragraph}" if name else paragraph
                )
                if plain:
                    prose.append(Text(plain, code))
    return tuple(prose)


# --- Sections -------------------------------------------------------------------------

_TERMS = (
    "args",
    "arguments",
    "parameters",
    "other parameters",
    "keyword arguments",
    "call arguments",
    "attributes",
    "properties",
    "fields",
)
_RESULTS = ("returns", "return", "yields", "raises", "warns", "receives")
_SKIPPED = (
    "see also",
    "references",
    "reference",
    "methods",
    "usage",
    "input shape",
    "output shape",
)
_KINDS = {
    **dict.fromkeys(_TERMS, "terms"),
    **dict.fromkeys(_RESULTS, "results"),
    **dict.fromkeys(_SKIPPED, "skipped"),
}
# A fenced code block, or a doctest up to the next blank line.
_CODE_BLOCK = re.compile(
    r"^[ >]*(```|~~~).*?(?:^[ >]*\1[^\n`]*$|\Z)|^ *>>>[^\n]*(?:\n[^\n]*\S[^\n]*)*",
    re.M | re.S,
)
_UNDERLINE = re.compile(r"\s*([-=~^*#])\1{2,}\s*$")
_GOOGLE_HEADER = re.compile(r"\s*[A-Z][A-Za-z ]{2,24}:\s*$")
_GOOGLE_ENTRY = re.compile(
    r"[ *-]*`{0,2}\**(\w[\w.]*)`{0,2}\s*(?:\([^()]*\))?\s*:\s+(?=\S)"
)
_NUMPY_ENTRY = re.compile(
    r"\s*`{0,2}\**(\w[\w.]*)`{0,2}(?:\s*,\s*[*`\w.]+)*\s*(?::.*|\([^)]*\))?$"
)


@dataclass(frozen=True)
class _Section:
    """A section of a docstring: the lines after its header.

    Attributes:
        kind: A value of `_KINDS` or "prose".
        is_numpy: Whether the header is underlined, as in NumPy's style.
        indent: Indentation of the header, in characters.
    """

    kind: str
    is_numpy: bool
    indent: int
    lines: list[str]


def _sections(lines: list[str]) -> list[_Section]:
    sections = [_Section("prose", False, 0, [])]
    for line, next_line in itertools.pairwise([*lines, ""]):
        title = line.strip(" :#*").lower()
        is_numpy = 0 < len(title) < 60 and bool(_UNDERLINE.match(next_line))
        if is_numpy or (title in _KINDS and _GOOGLE_HEADER.match(line)):
            kind = _KINDS.get(title, "prose")
            sections.append(_Section(kind, is_numpy, _indent(line), []))
        else:
            sections[-1].lines.append(line)
    return sections


def _entries(section: _Section) -> Iterator[tuple[str, list[str]]]:
    """Yields (term, lines about the term) of a section; the term is "" for other lines."""
    if section.kind == "skipped":
        if not section.is_numpy:
            # The lines after the indented part of a section belong to no section and
            # are kept.
            yield (
                "",
                list(
                    itertools.dropwhile(lambda s: _is_inside(s, section), section.lines)
                ),
            )
    elif section.kind == "prose" or (
        section.kind == "results" and not section.is_numpy
    ):
        yield "", section.lines
    else:
        yield from _described_terms(section)


def _is_inside(line: str, section: _Section) -> bool:
    return not line.strip() or _indent(line) > section.indent


def _described_terms(section: _Section) -> Iterator[tuple[str, list[str]]]:
    level = section.indent
    if not section.is_numpy:
        body_indents = (
            _indent(s) for s in section.lines if s.strip() and _is_inside(s, section)
        )
        level = min(body_indents, default=0)
    term = ""
    lines: list[str] = []
    for line in section.lines:
        if line.strip() and _indent(line) <= level:
            yield term, lines
            term, lines = _split_term(line, section)
        else:
            lines.append(line)
    yield term, lines


def _split_term(line: str, section: _Section) -> tuple[str, list[str]]:
    """Returns the term at the start of a line, or "", and the remaining text as lines."""
    entry = (_NUMPY_ENTRY if section.is_numpy else _GOOGLE_ENTRY).match(line)
    if not entry or not (section.is_numpy or _is_inside(line, section)):
        return "", [line]
    term = "" if section.kind == "results" else entry[1]
    return term, [] if section.is_numpy else [
        " " * (_indent(line) + 2) + line[entry.end() :]
    ]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# --- Paragraphs -----------------------------------------------------------------------

# Markers at the start of a paragraph, which are removed: bullets, admonitions, some
# Sphinx fields.
_MARKER = re.compile(
    r"\s*(?:[-*+•]\s|\d{1,2}[.)]\s|\([a-z\d]\)\s"
    r"|\.\. (?:note|warning|tip|important|caution)::"
    r"|:returns?:|:param (?:[^:]* )?\**(?P<name>\w+):)\s*"
)
# Other directives and Sphinx fields. They are dropped, with all more indented lines
# below.
_DIRECTIVE = re.compile(r"\s*(?:\.\.(?:\s|$)|:\w+(?:\s+[^:]*)?:(?!`))")
_RULE = re.compile(r"[\s=+|\-~^*#_.]{3,}$")
_TABLE_ROW = re.compile(r"\S {3,}\S|^\s*\w+ {2,}-{0,2} {0,2}\w")


def _paragraphs(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yields (argument, text) of each paragraph except tables.

    If a Sphinx field (`:param name:`) begins the paragraph, the argument is its name,
    else "".
    """
    for name, block in _blocks(lines):
        if not any(_TABLE_ROW.search(line) for line in block):
            yield name, " ".join(line.strip() for line in block)


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields (argument, lines) of each paragraph, without directives and horizontal lines."""
    name = ""
    block: list[str] = []
    directive_indent: int | None = None
    for line in [*lines, ""]:
        is_blank = not line.strip() or bool(_RULE.match(line))
        if directive_indent is not None and (
            is_blank or _indent(line) > directive_indent
        ):
            continue

        marker = _MARKER.match(line)
        directive = not marker and _DIRECTIVE.match(line)

        # A block ends before a blank line, a marker, a directive or a new paragraph.
        if block and (
            is_blank or marker or directive or _begins_paragraph(line, block)
        ):
            yield name, block
            name = ""
            block = []

        directive_indent = _indent(line) if directive else None
        if marker:
            name = marker["name"] or ""
            line = " " * marker.end() + line[marker.end() :]
        if line.strip() and not is_blank and not directive:
            block.append(line)


def _begins_paragraph(line: str, block: list[str]) -> bool:
    """Whether a line begins a new paragraph because its indentation changes."""
    depth = _indent(line)
    last = _indent(block[-1])
    if depth == last:
        return False
    ended = block[-1].rstrip().endswith((".", ":", "?", "!"))
    # A line of up to three words is a term if the next line, its definition, is more
    # indented.
    is_term = depth > last and len(block) == 1 and len(block[0].split()) <= 3
    return is_term or (ended and (len(block) > 1 or depth > last))


# --- Inline markup --------------------------------------------------------------------

_TEXT_ROLES = {
    "ref",
    "doc",
    "term",
    "abbr",
    "sub",
    "sup",
    "emphasis",
    "strong",
    "dfn",
    "guilabel",
}
_INLINE = re.compile(
    r"(?P<gap>:math:`[^`]*`|(?:https?|ftp|file)://\S+"
    # A citation without which the sentence is incomplete, as in "described in [2]_".
    r"|\b(?:[Ii]n|[Ss]ee|of|by|from|with|and|to|on|than)\s\[[\w*#+,-]+\]_)"
    r"|:(?P<role>[\w:+-]+):`(?P<target>[^`]+)`"
    r"|``(?P<literal>.+?)``"
    r"|`(?P<link>[^`<]+?)\s*<[^`>]+>`__?"
    r"|`(?P<quoted>[^`]+)`(?:__?\b)?"
    r"|\[(?P<label>[^]\[]+)\](?:\([^)\s]+\)|\[[^]]*\])"
    r"|(?P<citation>\s?\[[\w*#+,-]+\]_\b)"
    r"|(?<![\w*])(?P<stars>\*{1,2})(?P<bold>[^\s*](?:[^*]*[^\s*])?)(?P=stars)(?![\w*])"
    r"|(?<!\w)_(?P<italic>[A-Za-z][^_]*[A-Za-z])_(?!\w)"
    r"|(?P<compatibility>@(?:end_)?compatibility(?:\([^)]*\))?)"
)


def strip_inline_markup(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Converts a paragraph of reStructuredText or Markdown to plain text.

    Returns the plain text, with single spaces and with `GAP` in place of formulas and
    URLs, and the [start, end) positions, in the plain text, of words marked as code.
    """
    plain = ""
    code: list[tuple[int, int]] = []
    for piece, is_code in _pieces(" ".join(text.split())):
        if not plain or plain.endswith(" "):
            piece = piece.lstrip(" ")
        if is_code and piece:
            code.append((len(plain), len(plain) + len(piece)))
        plain += piece
    return plain.rstrip(), tuple(code)


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the plain text of each part of `text`, and whether that part is code."""
    end = 0
    for match in _INLINE.finditer(text):
        yield text[end : match.start()], False
        end = match.end()
        if match["gap"]:
            yield GAP, False
        elif match["role"]:
            yield _role_text(match["role"], match["target"])
        elif literal := match["literal"] or match["quoted"]:
            yield _literal(literal)
        elif content := match["label"] or match["bold"] or match["italic"]:
            yield from _pieces(content)
        elif match["link"]:
            yield match["link"], False
    yield text[end:], False


def _role_text(role: str, target: str) -> tuple[str, bool]:
    """Returns the visible text of a Sphinx role, and whether the text is code."""
    name = role.rsplit(":", 1)[-1]
    title = re.fullmatch(r"(.+?)\s*<.+>", target)
    shown = title[1] if title else target.lstrip("!")
    if name in ("pep", "rfc"):
        return f"{name.upper()} {shown}", False
    if name in _TEXT_ROLES:
        return (GAP if not title and "_" in shown else shown), False
    return _literal(shown.rsplit(".", 1)[-1] if shown.startswith("~") else shown)


def _literal(content: str) -> tuple[str, bool]:
    """Returns the text between backquotes, and whether it is code (at most 6 words)."""
    content = content.strip()
    if "`" in content or "://" in content:
        return GAP, False
    return content, len(content.split()) <= 6
