"""The check of a SavedModel before it is loaded refuses graphs that have effects."""

import pathlib

import pytest
import tensorflow as tf
from refusals import refused

import bert_tf
from bert_tf.export.saved_model_loading import foreign_parts, read_graph

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
# With tensorflow-text of the same version, as TensorFlow Serving contains both.
OF_TENSORFLOW = [
    GOLDEN / f"tensorflow_{version}_operations.txt" for version in ("2_12", "2_20")
]
ALLOWED = (
    pathlib.Path(bert_tf.__file__).parent / "export/saved_model_allowed_operations.txt"
)
TEXT = tf.TensorSpec([None], tf.string, name="text")


def write_file(text):
    tf.io.write_file("evil.txt", "content")
    return text


def in_gradient(text):
    @tf.custom_gradient
    def function(value):
        def gradient(upstream):
            tf.io.write_file("evil.txt", "content")
            return upstream

        return value, gradient

    function(tf.zeros([]))
    with tf.GradientTape() as tape:
        value = tf.zeros([])
        tape.watch(value)
        result = function(value)
    return tf.fill(tf.shape(text), tf.strings.as_string(tape.gradient(result, value)))


SIGNATURES = {
    "WriteFile": write_file,
    "WriteFile in a loop": lambda text: tf.map_fn(write_file, text),
    "WriteFile in a gradient": in_gradient,
    "EagerPyFunc": lambda text: tf.py_function(lambda each: each, [text], tf.string),
}
# Each reads or writes files, or runs Python code.
WITH_EFFECTS = {
    "DecodeProtoV2", "EagerPyFunc", "MatchingFiles", "MergeV2Checkpoints", "PrintV2",
    "PyFunc", "ReadFile", "RestoreV2", "SaveV2", "TextLineDataset", "WriteFile",
}  # fmt: skip


class Initialized(tf.Module):
    """Its resource writes a file when the model is loaded."""

    def __init__(self):
        super().__init__()
        from tensorflow.python.trackable.resource import CapturableResource

        class Resource(CapturableResource):
            def _create_resource(self):
                return tf.raw_ops.MutableHashTableV2(
                    key_dtype=tf.string, value_dtype=tf.int64
                )

            @tf.function(input_signature=[])
            def _initialize(self):
                tf.io.write_file("evil.txt", "content")
                return tf.constant(1)

        self.resource = Resource()


def lengths(text):
    return tf.cast(tf.strings.length(text), tf.float32)


def save_model(module, path, function):
    signature = tf.function(
        lambda text: {"score": lengths(function(text))}, autograph=False
    )
    concrete = signature.get_concrete_function(text=TEXT)
    tf.saved_model.save(module, str(path), signatures={"serving_default": concrete})
    (path / "assets.extra").mkdir()
    (path / "assets.extra/weights.json").write_text("{}")
    return str(path)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [*SIGNATURES, "WriteFile in an initializer"])
def test_graphs_with_effects_are_refused_and_not_run(tmp_path, name):
    module = Initialized() if name.endswith("initializer") else tf.Module()
    path = save_model(module, tmp_path / "evil", SIGNATURES.get(name, tf.identity))
    (tmp_path / "evil.txt").unlink(missing_ok=True)
    with refused(f"the operation {name.split()[0]}[, ].*trust=True"):
        bert_tf.Predictor(path)
    assert not (tmp_path / "evil.txt").exists()


def test_a_trusted_graph_is_loaded_without_the_check(tmp_path):
    path = save_model(tf.Module(), tmp_path / "evil", write_file)
    assert bert_tf.Predictor(path, trust=True)("a") == {"score": 1.0}
    assert (tmp_path / "evil.txt").exists()


def test_the_list_has_only_operations_of_tensorflow_serving_without_effects():
    allowed = ALLOWED.read_text("utf-8").split()
    assert allowed == sorted(set(allowed)) and not WITH_EFFECTS & set(allowed)
    for operations in OF_TENSORFLOW:
        assert set(allowed) <= set(operations.read_text("utf-8").split())


def changed(folder, change):
    """Returns the foreign parts of a SavedModel after a change of its graph."""
    graph = read_graph(folder)
    change(graph)
    return foreign_parts(graph)


def saver_function(graph, name):
    nodes = {each.name: each for each in graph.graph_def.node}
    node = nodes[name.partition(":")[0]]
    return node, node.attr["f"].func.name


def functions_of(graph):
    return {each.signature.name: each for each in graph.graph_def.library.function}


def other_function(graph):
    """Returns a function that the saver does not call."""
    names = graph.saver_def.save_tensor_name, graph.saver_def.restore_op_name
    of_saver = [saver_function(graph, name)[1] for name in names]
    return next(
        each
        for name, each in functions_of(graph).items()
        if each.node_def and name not in of_saver
    )


def test_only_the_saver_may_call_its_functions(exported):
    folder = exported("embedding")

    def saved(graph):
        return saver_function(graph, graph.saver_def.save_tensor_name)

    def from_signature(graph):
        nodes = other_function(graph).node_def
        node = nodes.add(name="call", op="StatefulPartitionedCall")
        node.attr["f"].func.name = saved(graph)[1]

    def as_object(graph):
        node = graph.object_graph_def.nodes.add()
        node.bare_concrete_function.concrete_function_name = saved(graph)[1]

    def as_output(graph):
        graph.signature_def["serving_default"].outputs["embedding"].name = (
            saved(graph)[0].name + ":0"
        )

    def as_input(graph):
        graph.graph_def.node.add(
            name="next", op="Identity", input=["^" + saved(graph)[0].name]
        )

    def as_init_op(graph):
        graph.collection_def["saved_model_main_op"].node_list.value.append(
            saved(graph)[0].name
        )

    def as_replacement(graph):
        own = functions_of(graph)[saved(graph)[1]]
        own.attr["api_implements"].s = b"name"

    def without_saver(graph):
        graph.ClearField("saver_def")

    assert changed(folder, lambda _: None) == []
    changes = (from_signature, as_object, as_output, as_input, as_init_op)
    for change in (*changes, as_replacement, without_saver):
        assert "the operation SaveV2" in changed(folder, change), change


@pytest.mark.parametrize("part", ["inputs", "outputs"])
@pytest.mark.parametrize("encoding", ["coo_sparse", "composite_tensor"])
def test_signatures_have_only_dense_tensors(exported, part, encoding):
    def sparse(graph):
        save, _ = saver_function(graph, graph.saver_def.save_tensor_name)
        tensor = getattr(graph.signature_def["serving_default"], part)["other"]
        if encoding == "coo_sparse":
            tensor.coo_sparse.values_tensor_name = f"{save.name}:0"
        else:
            tensor.composite_tensor.components.add(name=f"{save.name}:0")

    (found,) = changed(exported("embedding"), sparse)
    assert found == "a sparse or composite tensor of the signature serving_default"


def test_the_function_that_restores_may_not_save(exported):
    def save(graph):
        _, name = saver_function(graph, graph.saver_def.restore_op_name)
        functions_of(graph)[name].node_def.add(name="save", op="SaveV2")

    def save_as_restore(graph):
        graph.saver_def.restore_op_name = graph.saver_def.save_tensor_name

    folder = exported("embedding")
    assert changed(folder, save) == ["the operation SaveV2"]
    assert "the operation SaveV2" in changed(folder, save_as_restore)


def test_functions_with_the_name_of_an_operation_or_of_another_function_are_refused(
    exported,
):
    folder = exported("embedding")

    def of_the_saver_with_the_name(name, graph):
        node, before = saver_function(graph, graph.saver_def.save_tensor_name)
        node.attr["f"].func.name = name
        functions_of(graph)[before].signature.name = name
        # TensorFlow calls the function, and not the operation.
        other_function(graph).node_def.add(op=name)

    def twice(graph):
        library = graph.graph_def.library.function
        library.add().CopyFrom(library[0])

    for name in ("StringUpper", "SaveV2"):
        found = changed(
            folder, lambda graph, name=name: of_the_saver_with_the_name(name, graph)
        )
        assert {f"the ambiguous function {name}", "the operation SaveV2"} <= {*found}
    assert changed(
        folder, lambda graph: of_the_saver_with_the_name("WriteFile", graph)
    ) == [
        "the ambiguous function WriteFile",
        "the operation MergeV2Checkpoints",
        "the operation SaveV2",
        "the operation ShardedFilename",
        "the operation WriteFile",
    ]
    (found,) = changed(folder, twice)
    assert found.startswith("the ambiguous function ")


def test_unknown_functions_classes_and_resources_are_refused(exported):
    folder = exported("embedding")

    def call(graph):
        node = graph.graph_def.node.add(name="call", op="PartitionedCall")
        node.attr["f"].func.name = "not_in_the_library"

    def call_by_name(graph):
        graph.graph_def.node.add(name="call", op=name)

    def add_class(graph):
        graph.object_graph_def.nodes.add().user_object.identifier = "optimizer"

    def add_registered(graph):
        node = graph.object_graph_def.nodes.add(registered_name="evil.Class")
        node.user_object.identifier = "_generic_user_object"

    def add_asset(graph):
        graph.object_graph_def.nodes.add().asset.asset_file_def_index = 0

    assert changed(folder, call) == ["the unknown function not_in_the_library"]
    name = other_function(read_graph(folder)).signature.name
    assert changed(folder, call_by_name) == [f"the operation {name}"]
    assert changed(folder, add_class) == ["the class optimizer"]
    assert changed(folder, add_registered) == ["the class evil.Class"]
    assert changed(folder, add_asset) == ["an object of the kind asset"]
