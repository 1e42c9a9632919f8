"""`DocumentFilter`: keeps every tenth document of a text, or all others."""

from collections.abc import Iterable, Iterator

from bert_tf.data_prep.corpus.text_blocks import TextCounter

# The last of each ten documents is held out.
DOCUMENTS_PER_HELD_OUT = 10


class DocumentFilter(TextCounter):
    """Keeps every tenth document of a text, or all others, while the text is read.

    In a text file, a blank line ends a document, and so does the end of the file. The
    lines of the other documents become empty, so that line numbers are those of the
    file.

    Args:
        held_out: Whether to keep every tenth document, from the tenth on, or all
            others.

    Attributes:
        documents: Number of documents so far, kept or not.
    """

    def __init__(self, held_out: bool) -> None:
        super().__init__()
        self._held_out = held_out

    def counted(self, texts: Iterable[bytes], documents: bool) -> Iterator[bytes]:
        """Yields the texts of a file: each a document, or a part, with its lines."""
        if documents:
            for text in texts:
                self.documents += 1
                yield text if self._is_kept() else b""
            return
        line_before = has_text = False  # whether the last line and this one have text
        for text in texts:
            kept = []
            for number, line in enumerate(text.split(b"\n")):
                if number:
                    line_before, has_text = has_text, False
                if not has_text and line.strip():
                    has_text = True
                    self.documents += not line_before
                kept.append(line if self._is_kept() else b"")
            yield b"\n".join(kept)

    def _is_kept(self) -> bool:
        return (self.documents % DOCUMENTS_PER_HELD_OUT == 0) == self._held_out
