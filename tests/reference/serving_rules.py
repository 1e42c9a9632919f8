"""The rules of TensorFlow Serving for signatures and for the bodies of REST requests.

Sources: TensorFlow Serving
`servables/tensorflow/{predict_util,classifier,regressor}.cc` (the
signatures) and `util/json_tensor.cc` (REST). Imports neither TensorFlow nor bert_tf: a
signature is a `SignatureDef`, and a tensor is a NumPy array.
"""

import base64

import numpy as np

DT_FLOAT, DT_INT32, DT_STRING, DT_BOOL = 1, 3, 7, 10
DTYPES = {DT_FLOAT: np.float32, DT_INT32: np.int32, DT_STRING: object, DT_BOOL: bool}


class RefusedError(Exception):
    """TensorFlow Serving would refuse this."""


def require(condition, message):
    """Raises `RefusedError` with the message if the condition is false."""
    if not condition:
        raise RefusedError(message)


def check_predict(signature):
    """Checks a signature for the Predict API."""
    require(
        signature.inputs and signature.outputs, "a signature needs inputs and outputs"
    )
    for info in [*signature.inputs.values(), *signature.outputs.values()]:
        require(info.name, "each input and output needs the name of a tensor")
        require(info.dtype in DTYPES, f"dtype {info.dtype}")


def check_classify(signature):
    """Checks a signature for the Classify API."""
    require(len(signature.inputs) == 1, "expected one input tensor")
    require(list(signature.inputs) == ["inputs"], "no classification inputs found")
    require(len(signature.outputs) in (1, 2), "expected one or two output tensors")
    found = {name: info.dtype for name, info in signature.outputs.items()}
    require(set(found) <= {"classes", "scores"}, "expected classes or scores")
    require(found.get("classes", DT_STRING) == DT_STRING, "classes must be strings")
    require(found.get("scores", DT_FLOAT) == DT_FLOAT, "scores must be float32")
    for info in signature.outputs.values():
        require(len(info.tensor_shape.dim) == 2, "expected the shape [batch, classes]")


def check_regress(signature):
    """Checks a signature for the Regress API."""
    require(len(signature.inputs) == 1, "expected one input tensor")
    require(list(signature.inputs) == ["inputs"], "no regression inputs found")
    require(list(signature.outputs) == ["outputs"], "no regression output found")
    (output,) = signature.outputs.values()
    sizes = [dim.size for dim in output.tensor_shape.dim]
    require(output.dtype == DT_FLOAT, "regression outputs must be float32")
    require(
        len(sizes) == 1 or sizes[1:] == [1], "expected the shape [batch] or [batch, 1]"
    )


def parse_body(body, signature):
    """Returns a REST request's inputs, and whether its response has the row format."""
    require(("instances" in body) != ("inputs" in body), "expected instances or inputs")
    if "instances" in body:
        return parse_rows(body["instances"], signature), True
    values = body["inputs"]
    if not isinstance(values, dict):
        require(len(signature.inputs) == 1, "a single value needs a single input")
        values = dict.fromkeys(signature.inputs, values)
    require(
        set(values) == set(signature.inputs), "the names must be those of the signature"
    )
    return {
        n: to_tensor(v, signature.inputs[n].dtype) for n, v in values.items()
    }, False


def parse_rows(rows, signature):
    """Returns the inputs of a request in the row format."""
    require(
        isinstance(rows, list) and rows, "instances must be a list that is not empty"
    )
    names = set(signature.inputs)
    if not all(isinstance(row, dict) and set(row) == names for row in rows):
        is_named = any(isinstance(row, dict) and set(row) != {"b64"} for row in rows)
        require(len(names) == 1 and not is_named, "each instance must have all inputs")
        rows = [dict.fromkeys(names, row) for row in rows]
    return {
        name: to_tensor([row[name] for row in rows], signature.inputs[name].dtype)
        for name in names
    }


def to_tensor(value, dtype):
    """Converts a JSON value; strings become bytes, also `{"b64": ...}`."""
    if dtype != DT_STRING:
        array = np.array(value, DTYPES[dtype])
        require(
            np.array(value).dtype.kind == array.dtype.kind, "a value of another type"
        )
        return array
    array = np.array(_to_bytes(value), object)
    require(
        not any(isinstance(each, list) for each in array.flat),
        "rows of different shapes",
    )
    return array


def _to_bytes(value):
    if isinstance(value, list):
        return [_to_bytes(each) for each in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode()


def to_response(outputs, is_row_format):
    """Returns the body of the response for output arrays."""
    values = {name: _to_json(name, array.tolist()) for name, array in outputs.items()}
    if not is_row_format:
        return {"outputs": next(iter(values.values())) if len(values) == 1 else values}
    sizes = {len(array) for array in outputs.values()}
    require(len(sizes) == 1, "all outputs need the same batch size")
    rows = [
        dict(zip(values, row, strict=True))
        for row in zip(*values.values(), strict=True)
    ]
    if len(values) == 1:
        rows = [next(iter(row.values())) for row in rows]
    return {"predictions": rows}


def _to_json(name, value):
    if isinstance(value, list):
        return [_to_json(name, each) for each in value]
    if isinstance(value, bytes) and name.endswith("_bytes"):
        return {"b64": base64.b64encode(value).decode()}
    return value.decode() if isinstance(value, bytes) else value
