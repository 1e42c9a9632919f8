"""`DynamicMasks` masks unmasked records when they are read."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from bert_tf.masking.algorithm import Vocabulary, from_columns, mask_rows
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.masking.random_draws import Purpose, derive_keys


@dataclasses.dataclass(frozen=True)
class DynamicMasks:
    """Masks unmasked records; a record gets different masks each time it is read."""

    config: MaskingConfig
    vocabulary: Vocabulary

    def mask(
        self,
        columns: Mapping[str, np.ndarray],
        seed: int = 0,
        index: np.ndarray | int = 0,
    ) -> dict[str, np.ndarray]:
        """Masks B records.

        The masks of a record depend on its key, the seed and the index, so they depend
        neither on the process that computes them nor on the other records.

        Args:
            columns: The columns of `record_format.unmasked`, with any integer dtype.
            index: int64 [B], the index of each record in the stream of all records that
                are read. With 0, a record always gets the same masks, as evaluations
                need.

        Returns:
            The columns of `record_format.PRETRAINING`, int32 or float32.
        """
        # Derive a key for each record, seed and index.
        rows = from_columns(columns, self.vocabulary.size)
        keys = derive_keys(rows["key"], Purpose.TRAINING, seed % (1 << 64))
        rows["key"] = derive_keys(keys, Purpose.TRAINING, index)

        masked = mask_rows(self.config, rows, self.vocabulary)
        return {
            name: values.astype(np.float32 if name == "masked_lm_weights" else np.int32)
            for name, values in masked.items()
        }
