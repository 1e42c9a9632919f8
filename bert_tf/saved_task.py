"""`TaskFacts`: facts about a task that are saved with the weights, and compared later."""

import dataclasses
from typing import Any

from bert_tf.head_config import HeadConfig

# The metadata of fields whose value may differ between the training and the use of a
# model. Records and weights depend on a SETTING, such as a window length, but not on a
# DECISION, such as a threshold. Only records depend on ROOM, such as the number of
# choices for which they have room.
SETTING, DECISION, ROOM = {"use": "setting"}, {"use": "decision"}, {"use": "room"}


@dataclasses.dataclass(frozen=True)
class TaskFacts:
    """Facts about a task, as JSON values. A task with further facts has a subclass.

    When a trained model is used for a task, some fields may have other values than in
    training: `task`, and fields with the metadata `SETTING` (of the examples),
    `DECISION` (about predictions or metrics) or `ROOM` (for choices in a record). All
    other fields must be equal. Records do not depend on fields that are a `HeadConfig`.
    The methods omit fields whose value is None.

    Attributes:
        task_type: "classification", "span" or another type.
        labels: The labels in the order of the model's outputs; None for a task without
            labels.
    """

    task: str
    task_type: str
    labels: tuple[str, ...] | None = None

    def saved(self) -> dict[str, Any]:
        """Returns the facts that are saved with the weights."""
        return self._values(())

    def of_run(self) -> dict[str, Any]:
        """Returns the facts on which the trained weights depend."""
        return self._values(("decision", "room"))

    def of_records(self) -> dict[str, Any]:
        """Returns the facts on which records depend."""
        return self._values(("decision", "head"))

    def of_model(self) -> dict[str, Any]:
        """Returns the facts that a trained model and the task that uses it must share."""
        values = self._values(("decision", "setting", "room"))
        return {name: value for name, value in values.items() if name != "task"}

    def _values(self, without: tuple[str, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value, use = getattr(self, field.name), field.metadata.get("use")
            if isinstance(value, HeadConfig):
                value, use = value.to_dict() or None, "head"
            if value is not None and use not in without:
                values[field.name] = list(value) if isinstance(value, tuple) else value
        return values
