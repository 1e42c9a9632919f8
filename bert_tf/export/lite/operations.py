"""The operations of a TFLite file."""

from collections import Counter
from collections.abc import Mapping

from bert_tf.export.gate_process import GateError

# Operations of variables: their values would be lost or not initialized.
_STATE = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "HASHTABLE")
# The operations of tensorflow_text that the tokenizer uses.
_OF_TEXT = ("custom FastBertNormalize", "custom FastWordpieceTokenizeWithOffsets")


def operations(model: bytes) -> Mapping[str, int]:
    """Returns the number of uses of each operation of a TFLite file, by name.

    Operations that are not built in have the prefix "custom ".
    """
    from ai_edge_litert import schema_py_generated as schema

    names = {value: key for key, value in vars(schema.BuiltinOperator).items() if key.isupper()}
    root = schema.Model.GetRootAs(model, 0)
    codes = []
    for index in range(root.OperatorCodesLength()):
        code = root.OperatorCodes(index)
        # Codes above 127 are only in the newer field.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        custom = code.CustomCode()
        codes.append(f"custom {custom.decode()}" if custom else names[number])
    found: Counter[str] = Counter()
    for index in range(root.SubgraphsLength()):
        graph = root.Subgraphs(index)
        for place in range(graph.OperatorsLength()):
            found[codes[graph.Operators(place).OpcodeIndex()]] += 1
    return found


def check_operations(model: bytes, name: str, takes_texts: bool) -> Mapping[str, int]:
    """Checks that TFLite has all operations of a file, and returns them.

    Args:
        model: The file.
        name: Its name, for the message.
        takes_texts: Whether the file may have the operations of tensorflow_text.

    Raises:
        GateError: It has operations of TensorFlow ("Flex"), of variables, or others that are not
            built in.
    """
    found = operations(model)
    allowed = _OF_TEXT if takes_texts else ()
    wrong = [
        each for each in found
        if each in _STATE or (each.startswith("custom ") and each not in allowed)
    ]  # fmt: skip
    if wrong:
        raise GateError(
            f"{name} has operations that TFLite does not have built in, or variables: "
            f"{', '.join(sorted(wrong))}. Nothing was exported."
        )
    return found
