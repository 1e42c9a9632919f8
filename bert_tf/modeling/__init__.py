"""The BERT models, which map token ids to logits.

They are written with Keras operations only.

Read in this order: `fused` (arithmetic with explicit gradients), `initial_weights`,
`dropout`, `layers` (dense, layer normalization, activations), `transformer` (attention,
block), `inputs` (checks of the inputs), `base_model` (base class of all models),
`encoder` (embeddings, `BertEncoder`), `heads`, `head_layers` (BiLSTM, combination of
hidden states), `task_model` (base classes of the models with a head), `models` (encoder
and head for each kind of task), `costs` (parameters, FLOPs and memory of a model).
Imports foundation modules and keras, never tensorflow.

Shape letters: B sequences in a batch, S tokens in a sequence, H hidden size, A
attention heads, D = H/A size of one head, L layers (blocks), I intermediate size, P
predictions in a sequence, V vocabulary entries.
"""

from bert_tf.modeling.dropout import Dropout, DropoutSeeds
from bert_tf.modeling.encoder import BertEncoder, Embeddings
from bert_tf.modeling.heads import MaskedLMHead, OutputHead
from bert_tf.modeling.layers import Dense, LayerNorm
from bert_tf.modeling.models import (
    BertClassifier,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTagger,
    arrays_by_name,
    depths_by_name,
    variables_by_name,
)
from bert_tf.modeling.task_model import BertHeadModel, BertTaskModel
from bert_tf.modeling.transformer import SelfAttention, TransformerBlock, attention_bias

__all__ = [
    "BertClassifier",
    "BertEncoder",
    "BertHeadModel",
    "BertMultipleChoice",
    "BertPretrainer",
    "BertSpanPredictor",
    "BertTagger",
    "BertTaskModel",
    "Dense",
    "Dropout",
    "DropoutSeeds",
    "Embeddings",
    "LayerNorm",
    "MaskedLMHead",
    "OutputHead",
    "SelfAttention",
    "TransformerBlock",
    "arrays_by_name",
    "attention_bias",
    "depths_by_name",
    "variables_by_name",
]
