"""Requirements of tests on the processor and on the settings of TensorFlow."""

import os

import pytest

from bert_tf.training.mixed_precision import emulation_of_bfloat16

# Why bfloat16 is emulated here, or None.
EMULATION = emulation_of_bfloat16()
needs_bfloat16 = pytest.mark.skipif(EMULATION is not None, reason=str(EMULATION))
needs_onednn = pytest.mark.skipif(
    os.environ["TF_ENABLE_ONEDNN_OPTS"] == "0",
    reason="TF_ENABLE_ONEDNN_OPTS=0: oneDNN is off",
)
