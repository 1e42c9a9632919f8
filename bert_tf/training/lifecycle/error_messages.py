"""Error messages for failed runs.

A message names the damaged record, if it is known, and the newest checkpoint.
"""

import contextlib
import dataclasses
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError, plain_message
from bert_tf.training.lifecycle.checkpoint import CheckpointWriter
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.step.step_result import MAX_BAD_STEPS, StepResult

# TensorFlow's message may contain bytes that are copied from a record and are not valid
# UTF-8. The conversion of such a message to a Python string raises UnicodeDecodeError.
READ_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    UnicodeDecodeError,
)
_MAX_MESSAGE_LENGTH = 200


@dataclasses.dataclass(frozen=True)
class RecordLookup:
    """Finds the record that caused an error, or the records in a batch.

    Attributes:
        explain_error: Returns a message that names the record after an error of the
            input pipeline, or None if all records can be read.
        describe: Takes the feature `step.objective.ORIGIN` of a batch, int64 [B, 2],
            and returns a text that names the files and records of the examples.
    """

    explain_error: Callable[[], str | None] = lambda: None
    describe: Callable[[Any], str] = lambda origin: ""


NO_LOOKUP = RecordLookup()


@dataclasses.dataclass(frozen=True)
class FailureMessages:
    """Converts failures to errors that name the step, the records and the newest checkpoint.

    `connection_errors` are those of `Devices`.
    """

    records: RecordLookup
    folder: RunFolder
    writer: CheckpointWriter
    connection_errors: tuple[type[Exception], ...] = ()

    @contextlib.contextmanager
    def explain(self, step: int) -> Iterator[None]:
        """Converts the error of an unreadable record or a lost worker to an `InputError`."""
        try:
            yield
        except READ_ERRORS as error:
            reason = self.records.explain_error()
            # If no record is damaged, the error is a bug in the program.
            if reason is None and not isinstance(error, tf.errors.DataLossError):
                raise
            reason = reason or f"A record cannot be read: {plain_message(error)}."
            raise InputError(
                f"After step {step}: {reason} {self._newest_checkpoint()}"
            ) from error

        except self.connection_errors as error:
            if "RESOURCE_EXHAUSTED" in str(error):  # a device of JAX has no memory left
                raise
            message = textwrap.shorten(
                plain_message(error), _MAX_MESSAGE_LENGTH, placeholder=" ..."
            )
            raise InputError(
                f"After step {step}: another worker has ended ({message}). Start all "
                f"workers again to resume. {self._newest_checkpoint()}"
            ) from error

    def bad_steps(self, result: StepResult, step: int) -> InputError:
        """Returns the error for a result whose `is_failure` is true; `step` is its last step."""
        failed_step = f"step {step}"
        if len(result.bad_origin) and (
            origin := self.records.describe(result.bad_origin)
        ):
            failed_step += f" ({origin})"
        checkpoint = self._newest_checkpoint()

        if result.cause:
            return InputError(
                f"The gradient of {failed_step} is not finite: {result.cause}. {checkpoint}"
            )
        return InputError(
            f"The gradients of {MAX_BAD_STEPS} steps in a row are not finite, the last "
            f"of them {failed_step}. {checkpoint} Try debug_nans=True to find the layer, or "
            "a lower learning_rate."
        )

    def _newest_checkpoint(self) -> str:
        with contextlib.suppress(InputError):
            self.writer.wait()
        folder = self.folder.latest_checkpoint()
        return (
            f"The newest checkpoint is {folder}."
            if folder
            else "There is no checkpoint yet."
        )
