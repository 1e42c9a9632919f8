"""`RowCounts`: the unusual rows of a split, and the decision about rows that are skipped."""

from collections import Counter, defaultdict

from bert_tf.errors import InputError

# More skipped rows than these shares of a split give a warning, or stop the run.
_WARNING_SHARE, _MAX_SHARE = 0.1, 0.5


class RowCounts(Counter[str]):
    """Counts the unusual rows of a split by reason, and keeps the first one of each reason.

    Attributes:
        num_read: The number of examples.
        notes: Sentences about the split that are saved with its records: "first" has
            the first row of each reason, "read" what was read, such as the columns, and
            "warnings" what is repeated at the end of the run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_read, self._num_skipped = 0, 0
        self.notes: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, row: str, is_skipped: bool = False) -> None:
        """Counts a row.

        Args:
            reason: The reason, such as "short rows skipped".
            row: The file, the place and the value of the row.
            is_skipped: Whether the row gives no example.
        """
        if reason not in self:
            self.notes["first"].append(
                f"The first of the {reason}: {row.removesuffix('.')}."
            )
        self[reason] += 1
        self._num_skipped += is_skipped

    def check(self, name: str, allow_skipped: bool) -> None:
        """Decides about the skipped rows of a split that was read.

        Args:
            name: The split.
            allow_skipped: Whether more than half of the rows may be skipped.

        Raises:
            InputError: More than half of the rows were skipped.
        """
        share = self._num_skipped / max(self.num_read + self._num_skipped, 1)
        text = f"{share:.1%} of the rows of {name} are skipped. {' '.join(self.notes['first'])}"
        if share > _MAX_SHARE and not allow_skipped:
            raise InputError(
                f"{text} Correct the file or the settings with which it is read. To "
                "use only the other rows, give allow_skipped=True."
            )
        if share > _WARNING_SHARE:
            self.notes["warnings"].append(text)
