"""Compares the results of several libraries and topkd for the same requests.

usage: differential.py TOPKD [--count N] [--seed S] [--out FILE]

The requests are those in tests/conformance/cases and N random requests (700 by
default), half of which have no ties and NaNs. ONNX Runtime and onnx's evaluator
run the ONNX requests, OpenVINO runs the OpenVINO requests, and PyTorch and
NumPy run equivalent calls for all requests. Prints how often each agrees.
Writes disagreements to FILE (disagreements.jsonl by default): all for the case
files, and the first of each kind for random requests. Exits with 1 if the kind
of a disagreement is unknown (see kind_of_row() and the tables below). Without
ties and NaNs, the only known kinds are a missing type and an unspecified order.
"""

import argparse
import collections
import json
import math
import pathlib
import sys
import warnings

import grpc
import numpy as np

import case_requests
import harness
import libraries
import topk_stubs
from stable_topk import DTYPES

HERE = pathlib.Path(__file__).resolve().parent
# Errors that follow from an operator's own rules, so libraries may fail too.
OPERATOR_REASONS = {
    "K_MISSING", "K_NOT_POSITIVE", "K_EXCEEDS_DIMENSION", "K_SHAPE",
    "K_IS_ATTRIBUTE", "AXIS_RANGE", "DATA_TYPE_NOT_ALLOWED",
    "ATTRIBUTE_NOT_BOOLEAN", "ATTRIBUTE_NOT_IN_VERSION", "ATTRIBUTE_VALUE",
    "ATTRIBUTE_MISSING", "STABLE_WITHOUT_SORT", "RANK_ZERO",
    "ATTRIBUTES_MISSING"}
# Errors that OpenVINO's Python API cannot express.
INEXPRESSIBLE_REASONS = {
    "ATTRIBUTE_MISSING", "ATTRIBUTE_NOT_IN_VERSION", "K_MISSING"}
# Errors that PyTorch's API can express.
LOWERED_REASONS = {"K_NOT_POSITIVE", "K_EXCEEDS_DIMENSION", "AXIS_RANGE"}

# The rule that decides each kind of disagreement.
RULES = "core/dialects/README.md"
CLAUSES = {
    "nan": f"{RULES} 1: every NaN is equal to every other, above +infinity",
    "ties": f"{RULES} 2: equal elements rank by index, ascending",
    "zeros": f"{RULES} 1 and 2: -0 is equal to +0, and ranks by index",
    "payload": f"{RULES} 4: values are bit copies, of NaNs too",
    "stable by index": f"{RULES} 2 and 3, and TopK-11's example: stable leaves "
                       "the lower indices alone",
    "any order": f"{RULES} 3: where any order is allowed, by value",
    "32 bits": f"{RULES} 1: numbers of 64 bits, and of u32, rank by value",
    "type": "README.md, Operators: the element types of each version",
    "K_NOT_POSITIVE": f"{RULES}, rejected requests, all: k < 1",
    "K_EXCEEDS_DIMENSION": f"{RULES}, rejected requests, all: k > n",
    "RANK_ZERO": f"{RULES}, rejected requests, all: rank 0",
    "K_SHAPE": f"{RULES}, rejected requests: K of ONNX has the shape [1]",
    "AXIS_RANGE": f"{RULES}, rejected requests: axis outside -r .. r-1; in "
                  "DirectML a negative one",
    "DATA_TYPE_NOT_ALLOWED": f"{RULES}, rejected requests, all: an element "
                             "type that the version lacks; a K tensor that is "
                             "not i64",
    "ATTRIBUTE_NOT_BOOLEAN": f"{RULES}, rejected requests: largest or sorted "
                             "other than 0 and 1",
    "ATTRIBUTE_VALUE": f"{RULES}, rejected requests: mode not min or max",
}

# Element types for which a library has no TopK, in some versions.
LACKING = {
    "onnx_runtime": {"bfloat16", "int16", "uint16", "uint32", "uint64",
                     "float16 in 1"},
    "pytorch": {"uint16", "uint32", "uint64"},
}
# The only possible differences between valid results without ties and NaNs.
PLAIN_KINDS = {"any order", "type"}
# Requests that the operator forbids but a library computes.
ACCEPTED = {
    "onnx_runtime": {"K_NOT_POSITIVE", "ATTRIBUTE_NOT_BOOLEAN"},
    "onnx_reference": {"K_NOT_POSITIVE", "ATTRIBUTE_NOT_BOOLEAN", "K_SHAPE",
                       "AXIS_RANGE", "DATA_TYPE_NOT_ALLOWED"},
    "openvino_cpu": {"ATTRIBUTE_VALUE", "K_EXCEEDS_DIMENSION"},
    "pytorch": {"K_NOT_POSITIVE", "AXIS_RANGE"},
}
# Libraries without the operators, but with a corresponding call.
WITHOUT_OPERATOR = {libraries.pytorch, libraries.numpy_stable}
# Libraries that misplace NaNs or the elements next to NaNs. onnx's evaluator
# orders bfloat16 elements as ml_dtypes does.
NAN_ELSEWHERE = {"onnx_runtime", "openvino_cpu", "onnx_reference of bfloat16"}


class PackedType(ValueError):
    """An element type smaller than a byte, which NumPy does not support."""


def array_of(tensor, messages):
    """Converts a Tensor message to a NumPy array. Raises PackedType."""
    name = messages["tensor"].DataType.Name(tensor.data_type)
    short = name[len("DATA_TYPE_"):].lower()
    if short not in DTYPES:
        raise PackedType(name)
    dtype = np.dtype(DTYPES[short])
    flat = np.frombuffer(tensor.data, dtype,
                         len(tensor.data) // dtype.itemsize)
    if tensor.strides:
        return np.lib.stride_tricks.as_strided(
            flat, tensor.shape, [s * dtype.itemsize for s in tensor.strides])
    # The data may be padded.
    return flat[:math.prod(tensor.shape)].reshape(tensor.shape)


def question_of(request, messages):
    """Converts a request. Raises ValueError if no library can express it."""
    which = request.WhichOneof("attributes")
    if which is None:
        raise ValueError("attributes")
    said = getattr(request, which)
    tensor = request.tensor
    array = array_of(tensor, messages).copy(order="C")
    if which == "directml":
        k, k_array = said.k, np.int64(said.k)
    elif said.k.HasField("tensor"):
        k_array = array_of(said.k.tensor, messages)
        k = int(k_array.flat[0])
    else:
        k = said.k.value
        k_array = (np.array([k], np.int64) if which == "onnx"
                   else np.array(k, np.int64))
        if not said.k.HasField("value"):
            k_array = None
    axis = said.axis if which != "onnx" or said.HasField("axis") else -1
    if which == "onnx":
        largest = not said.HasField("largest") or said.largest == 1
        ordered = not said.HasField("sorted") or said.sorted == 1
        order = "value" if ordered else "any"
    elif which == "openvino":
        largest = said.mode == "max"
        order = {"index": "index", "none": "any"}.get(said.sort, "value")
    else:
        increasing = messages["directml"].AXIS_DIRECTION_INCREASING
        largest = said.axis_direction != increasing
        order = "value"
    stable = which == "onnx" or (which == "openvino" and said.stable)
    return libraries.Question(request, array, axis, k, k_array, largest, order,
                              stable)


def slices(question, *arrays):
    """Yields the slices of each array along the axis, side by side."""
    rows = [np.moveaxis(a, question.axis, -1) for a in arrays]
    return zip(*(row.reshape(-1, row.shape[-1]) for row in rows))


def fits_32_bits(row):
    """Returns whether i32 (for integers) or f32 can represent all numbers.
    Ignores f64 infinities, which OpenVINO replaces by the largest number."""
    if row.dtype.kind in "iu":
        return all(-2**31 <= int(x) < 2**31 for x in row)
    if row.dtype != np.float64:
        return True
    with np.errstate(over="ignore"):
        again = row.astype(np.float32).astype(row.dtype)
    return bool(np.all(np.isfinite(row) & (again == row) | np.isnan(row)))


def minus_zeros(numbers):
    return np.count_nonzero(np.signbit(numbers) & (numbers == 0))


def kind_of_row(question, library, row, ours, theirs):
    """Returns the kind of disagreement in a slice, or None if it is unknown."""
    values, indices = theirs
    if library == "numpy_stable":  # must never differ from topkd
        return None
    if library == "openvino_cpu" and not fits_32_bits(row):
        return "32 bits"
    wide = row.astype(np.float32) if row.dtype.name == "bfloat16" else row
    if np.isnan(wide).any() and not NAN_ELSEWHERE.isdisjoint(
            {library, f"{library} of {row.dtype.name}"}):
        return "nan"
    if (np.any((indices < 0) | (indices >= len(row)))
            or len(set(indices.tolist())) != len(indices)):
        return None
    if values.tobytes() != row[indices].tobytes():
        nan = np.isnan(wide[indices])
        same = values[~nan].tobytes() == row[indices][~nan].tobytes()
        return "payload" if same and library == "pytorch" else None
    mine, other = wide[ours[1]], wide[indices]
    equal_nan = wide.dtype.kind == "f"
    if not np.array_equal(np.sort(mine), np.sort(other), equal_nan):
        return None
    if question.order == "any" and set(indices) == set(ours[1]):
        return "any order"
    # ONNX guarantees the lower index, and OpenVINO does if `stable` is set.
    if library == "openvino_cpu" and question.stable:
        return "stable by index" if question.order == "index" else None
    if library not in ("openvino_cpu", "pytorch"):
        return None
    if question.order == "value" and not np.array_equal(mine, other, equal_nan):
        return None
    return "zeros" if minus_zeros(mine) != minus_zeros(other) else "ties"


def words(array):
    """Returns the first elements as text, because JSON has no NaN."""
    return [str(x) for x in np.asarray(array).ravel()[:12].tolist()]


class Suite:
    def __init__(self, target, messages):
        self.messages = messages
        self.stub = messages["rpc"].TopKServiceStub(
            grpc.insecure_channel(target))
        self.counts = collections.defaultdict(collections.Counter)
        self.disagreements = []
        self.told = set()
        self.unknown = 0

    def ours(self, request):
        """Returns (values, indices, ""), or (None, None, reason)."""
        # No library supports an offset, or only one of the outputs.
        asked = type(request)()
        asked.CopyFrom(request)
        asked.ClearField("index_offset")
        asked.ClearField("output")
        try:
            answer = self.stub.ComputeTopK(asked)
        except grpc.RpcError as error:
            for key, value in error.trailing_metadata():
                if key == "grpc-status-details-bin":
                    return None, None, self.reason(value)
            raise
        return (array_of(answer.values, self.messages),
                array_of(answer.indices, self.messages), "")

    def reason(self, details):
        import google.rpc.error_details_pb2 as error_details
        import google.rpc.status_pb2 as status_pb2
        status = status_pb2.Status.FromString(details)
        info = error_details.ErrorInfo()
        for detail in status.details:
            if detail.Unpack(info):
                return info.reason
        raise RuntimeError("an error without a reason")

    def ask(self, name, request):
        values, indices, reason = self.ours(request)
        if reason and reason not in OPERATOR_REASONS:
            return
        try:
            question = question_of(request, self.messages)
        except PackedType:
            return
        except (ValueError, KeyError, IndexError):
            if not reason:  # valid requests are convertible
                raise
            return
        which = request.WhichOneof("attributes")
        if which == "openvino" and reason in INEXPRESSIBLE_REASONS:
            return
        asked = []
        if which == "onnx":
            asked += [libraries.onnx_runtime, libraries.onnx_reference]
        if which == "openvino":
            asked += [libraries.openvino_cpu]
        if not reason or reason in LOWERED_REASONS:
            asked += [libraries.pytorch]
        if not reason:
            asked += [libraries.numpy_stable]
        for library in asked:
            self.compare(name, question, library, (values, indices), reason)

    def compare(self, name, question, library, ours, reason):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = [np.asarray(a) for a in library(question)]
        except Exception as error:  # libraries raise all kinds of exceptions
            if reason:
                self.counts[library.__name__]["agree"] += 1
            else:
                self.refused(name, question, library, ours, error)
            return
        if reason:
            known = reason in ACCEPTED.get(library.__name__, ())
            self.tell(name, question, library, reason, known,
                      f"an answer of shape {list(theirs[0].shape)}",
                      f"refused: {reason}")
            return
        if [a.shape for a in theirs] != [a.shape for a in ours]:
            self.tell(name, question, library, "shape", False,
                      f"shape {theirs[0].shape}", f"shape {ours[0].shape}")
            return
        if library not in WITHOUT_OPERATOR and (
                [a.dtype for a in theirs] != [a.dtype for a in ours]):
            self.tell(name, question, library, "element type", False,
                      str(theirs[1].dtype), str(ours[1].dtype))
            return
        theirs[0] = theirs[0].astype(ours[0].dtype, copy=False)
        if question.order == "index" and library in WITHOUT_OPERATOR:
            # These libraries lack this order, so reorder their result.
            place = np.argsort(theirs[1], question.axis)
            theirs = [np.take_along_axis(a, place, question.axis)
                      for a in theirs]
        kinds = {}
        for row, *answers in slices(question, question.array, *ours, *theirs):
            mine, other = answers[:2], answers[2:]
            if (np.array_equal(mine[1], other[1])
                    and mine[0].tobytes() == other[0].tobytes()):
                continue
            kind = kind_of_row(question, library.__name__, row, mine, other)
            kinds.setdefault(kind, (other, mine, row))
        if not kinds:
            self.counts[library.__name__]["agree"] += 1
        for kind, (other, mine, row) in kinds.items():
            self.tell(name, question, library, kind, kind is not None, other,
                      mine, row)

    def refused(self, name, question, library, ours, error):
        kind = question.array.dtype.name
        version = question.request.spec.version
        lacking = LACKING.get(library.__name__, ())
        known = kind in lacking or f"{kind} in {version}" in lacking
        message = str(error).strip() or repr(error)
        self.tell(name, question, library, "type" if known else None, known,
                  "refused: " + message.splitlines()[0][:160], ours)

    def tell(self, name, question, library, kind, known, theirs, ours,
             row=()):
        """Counts and records a disagreement. Of known disagreements in random
        requests, records only the first of each kind."""
        if name.startswith("random/plain") and kind not in PLAIN_KINDS:
            known = False
        label = kind if known else f"unknown {kind}"
        self.counts[library.__name__][label] += 1
        self.unknown += not known
        if known and name.startswith("random"):
            if (library, kind) in self.told:
                return
            self.told.add((library, kind))

        def shown(answer):
            return answer if isinstance(answer, str) else {
                "values": words(answer[0]), "indices": words(answer[1])}

        spec = question.request.spec
        self.disagreements.append({
            "case": name, "library": library.__name__, "kind": label,
            "operator": f"{question.request.WhichOneof('attributes')} "
                        f"{spec.version}",
            "type": question.array.dtype.name,
            "shape": list(question.array.shape), "axis": question.axis,
            "k": question.k, "largest": bool(question.largest),
            "order": question.order, "slice": words(row),
            "theirs": shown(theirs), "ours": shown(ours),
            "clause": CLAUSES.get(kind)})


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("topkd")
    parser.add_argument("--count", type=int, default=700)
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--out", default=HERE / "disagreements.jsonl")
    options = parser.parse_args()
    messages = topk_stubs.load_stubs()
    with harness.Server(options.topkd) as server:
        suite = Suite(server.target, messages)
        requests = 0
        for name, request in case_requests.from_files(messages):
            suite.ask(name, request)
            requests += 1
        print(f"{requests} requests of tests/conformance/cases, "
              f"{options.count} random ones, seed {options.seed}")
        for name, request in case_requests.at_random(
                messages, options.seed, options.count):
            suite.ask(name, request)
    for library, counts in suite.counts.items():
        kinds = ", ".join(f"{count} {kind}"
                          for kind, count in sorted(counts.items())
                          if kind != "agree")
        print(f"{library:15} agrees in {counts['agree']} of "
              f"{sum(counts.values())}; {kinds or 'no more'}")
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(json.dumps({"versions": libraries.versions()}) + "\n")
        for told in suite.disagreements:
            file.write(json.dumps(told) + "\n")
    if suite.unknown:
        sys.exit(f"{suite.unknown} disagreements of no known kind: see "
                 f"\"unknown\" in {options.out}")


if __name__ == "__main__":
    main()
