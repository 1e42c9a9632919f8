"""The format of the files that the GLUE server accepts.

Each test file has one submission file: a header line `index<tab>prediction`, then a
line for each example in the order of the test file, with the number of the example from
0.
"""

import dataclasses
from collections.abc import Mapping

HEADER = ("index", "prediction")


@dataclasses.dataclass(frozen=True)
class Submission:
    """The submission files of a task.

    Attributes:
        file_names: The official file name for each test split, by the suffix of the
            split.
        score_range: The lowest and the highest score that the server accepts, if the
            predictions are scores; None if they are labels.

    Source: gluebenchmark.com/faq.
    """

    file_names: Mapping[str, str]
    score_range: tuple[float, float] | None = None

    def text(self, prediction: str | float) -> str:
        """Returns the text of a prediction in the column `prediction`.

        Args:
            prediction: A label, or a score. A score is limited to `score_range` and is
                written with three decimals.
        """
        if isinstance(prediction, str):
            return prediction
        low, high = self.score_range or (float("-inf"), float("inf"))
        return f"{max(low, min(high, float(prediction))):.3f}"
