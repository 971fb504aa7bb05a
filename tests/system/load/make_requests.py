"""Writes requests for load generators: small (8 x 1000) and large (1 MiB), each
as JSON, with its data in base64, and as the message's own bytes.

usage: make_requests.py DIRECTORY
"""

import pathlib
import sys

import numpy
from google.protobuf import json_format

import topk_stubs

SHAPES = {"small": (8, 1000), "large": (8, 32768)}


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    modules = topk_stubs.load_stubs()
    topk, tensor = modules["topk"], modules["tensor"]
    random = numpy.random.default_rng(1)
    for name, shape in SHAPES.items():
        data = random.standard_normal(shape, numpy.float32)
        # ghz takes {{ for the beginning of a template, in bytes too.
        octets = data.view(numpy.uint8)
        octets[octets == ord("{")] += 1
        request = topk.TopKRequest(
            spec={"dialect": topk.DIALECT_ONNX, "version": 11},
            tensor={"data_type": tensor.DATA_TYPE_F32, "shape": shape,
                    "data": data.tobytes()},
            onnx={"k": {"value": 10}})
        (directory / f"{name}.bin").write_bytes(request.SerializeToString())
        text = json_format.MessageToJson(request, indent=None,
                                         preserving_proto_field_name=True)
        (directory / f"{name}.json").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
