"""Compares OpenVINO's encoding of small types with topkd's.

usage: packing.py TOPKD

OpenVINO encodes elements of each type, and topkd sorts them. Exits with 1 if
the bytes or the order differ. OpenVINO releases up to 2026.4 store u3 and u6
differently, as described in split_units(). Any other difference is an error.
"""

import sys

import grpc
import ml_dtypes
import numpy as np
import openvino

import harness
import topk_stubs

NF4 = (-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343,
       -0.09105004, 0.0, 0.0795803, 0.1609302, 0.2461123, 0.33791524,
       0.44070983, 0.562617, 0.72295684, 1.0)
FLOATS = {"f4e2m1": ml_dtypes.float4_e2m1fn, "f8e4m3": ml_dtypes.float8_e4m3fn,
          "f8e5m2": ml_dtypes.float8_e5m2, "f8e8m0": ml_dtypes.float8_e8m0fnu}
WIDTHS = {"u1": 1, "u2": 2, "u3": 3, "u4": 4, "u6": 6, "i4": 4, "nf4": 4,
          "f4e2m1": 4, "f8e4m3": 8, "f8e5m2": 8, "f8e8m0": 8}


def numbers_of(name):
    """Returns the number that each code of a type represents."""
    codes = np.arange(1 << WIDTHS[name], dtype=np.uint8)
    if name == "nf4":
        return np.array(NF4)
    if name == "i4":
        return (codes ^ 8).astype(np.float64) - 8
    if name in FLOATS:
        return codes.view(FLOATS[name]).astype(np.float64)
    return codes.astype(np.float64)


def linear(codes, width, high_first=False):
    """Packs elements one after the other, starting at the least significant bit
    of each byte. With `high_first`, starts at the most significant bit;
    `width` must then divide 8."""
    bits = (codes[:, None] >> np.arange(width) & 1).astype(np.uint8).ravel()
    return np.packbits(
        bits, bitorder="big" if high_first else "little").tobytes()


def split_units(codes, width):
    """Packs 8 elements of 3 bits (or 4 of 6 bits) into each three bytes. The
    first two bytes have the low 2 (4) bits of each element, and the third byte
    has the high 1 (2) bits. The first element is in the most significant bits.
    """
    low = width // 3 * 2
    per_unit = 24 // width
    codes = np.pad(codes, (0, -len(codes) % per_unit))
    data = b""
    for unit in codes.reshape(-1, per_unit):
        number = 0
        for code in unit:
            number = number << low | int(code) & (1 << low) - 1
        for code in unit:
            number = number << width - low | int(code) >> low
        data += number.to_bytes(3, "big")
    return data


def encoded_by_openvino(name, codes):
    numbers = numbers_of(name)[codes]
    if name[0] in "iu":
        numbers = numbers.astype(int)
    return openvino.op.Constant(
        getattr(openvino.Type, name), openvino.Shape([len(codes)]),
        numbers.tolist()).data.tobytes()


def sorted_by_topkd(stub, messages, name, data, count):
    """Returns the bytes and the indices of all elements, largest first."""
    request = messages["topk"].TopKRequest(
        spec={"dialect": "DIALECT_OPENVINO", "version": 11},
        openvino={"axis": 0, "mode": "max", "sort": "value",
                  "k": {"value": count}},
        tensor={"data_type": f"DATA_TYPE_{name.upper()}", "shape": [count],
                "data": data})
    response = stub.ComputeTopK(request, timeout=30)
    return (response.values.data,
            np.frombuffer(response.indices.data, np.int32))


def check(stub, messages, name):
    """Returns how OpenVINO stores the type. Raises AssertionError if that is
    unknown, or if topkd reads the bytes differently."""
    width = WIDTHS[name]
    numbers = numbers_of(name)
    codes = np.random.default_rng(7).permutation(1 << width).astype(np.uint8)
    codes = np.append(codes, codes[:1])  # the last byte or unit is not full
    codes = codes[~np.isnan(numbers[codes])]  # OpenVINO has one code for NaN
    data = linear(codes, width, high_first=name == "u1")
    said = encoded_by_openvino(name, codes)
    how = "as topkd"
    if said != data:
        assert name in ("u3", "u6"), f"{name}: {said.hex()}, not {data.hex()}"
        assert said == split_units(codes, width), f"{name}: {said.hex()}"
        how = "in split units of three bytes"
    keys = numbers[codes] + 0.0  # -0 is equal to 0
    order = np.argsort(-keys, kind="stable")
    values, indices = sorted_by_topkd(stub, messages, name, data,
                                      len(codes))
    assert (indices == order).all(), f"{name}: the order differs"
    assert values == linear(codes[order], width, high_first=name == "u1"), name
    return how


def main():
    # The examples in tensor.proto.
    for name, example, ours, split in (
            ("u3", [1, 2, 3, 4, 5, 6, 7, 0], "d1581f", "6c6c1e"),
            ("u6", [33, 18, 63, 44], "a1f4b3", "12fc9e")):
        codes = np.array(example, np.uint8)
        assert linear(codes, WIDTHS[name]).hex() == ours
        assert split_units(codes, WIDTHS[name]).hex() == split
    messages = topk_stubs.load_stubs()
    with harness.Server(sys.argv[1]) as server, \
            grpc.insecure_channel(server.target) as channel:
        stub = messages["rpc"].TopKServiceStub(channel)
        for name in WIDTHS:
            how = check(stub, messages, name)
            print(f"OpenVINO {openvino.__version__} stores {name} {how}")


if __name__ == "__main__":
    main()
