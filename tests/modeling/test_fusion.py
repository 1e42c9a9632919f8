"""TensorFlow fuses operations of the inference graph.

The fusion speeds up inference.
"""

import collections

import pytest
import tensorflow as tf
from processors import needs_onednn
from tensorflow.python.eager import context
from tiny_bert import small_config

from bert_tf.modeling import BertEncoder

LAYERS = 2


@pytest.fixture(scope="module")
def fused():
    """Returns a Counter of fused operations.

    A key names the operations that were fused.
    """
    config = small_config(
        20, hidden_size=16, num_hidden_layers=LAYERS, intermediate_size=32
    )
    model = BertEncoder(config, seed=0)
    names = ("input_ids", "input_mask", "segment_ids")
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in names}
    call = tf.function(
        lambda inputs: model(inputs)["pooled_output"], input_signature=[spec]
    )
    context.context().enable_graph_collection()
    call({name: tf.ones((2, 6), tf.int32) for name in names})
    metadata = context.context().export_run_metadata()
    context.context().disable_graph_collection()
    return collections.Counter(
        tuple(name.decode() for name in node.attr["fused_ops"].list.s)
        for graph in metadata.partition_graphs
        for node in graph.node
        if node.attr["fused_ops"].list.s
    )


@needs_onednn
def test_every_product_is_fused_with_its_bias_and_activation(fused):
    assert fused[("BiasAdd", "GeluApproximate")] == LAYERS
    # The dense layers are the pooler and six layers in each block: query, key, value,
    # attention output, intermediate and output.
    with_bias = sum(
        count for names, count in fused.items() if names[:1] == ("BiasAdd",)
    )
    assert with_bias == 6 * LAYERS + 1, fused
