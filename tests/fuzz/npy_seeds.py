"""Writes NumPy's own files, for the targets npy and npz to begin with.

usage: npy_seeds.py npy|npz FOLDER
"""

import io
import itertools
import pathlib
import sys

import numpy as np

TYPES = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 V2 b1 c8 S3".split()
SHAPES = [(), (0,), (3,), (2, 3), (2, 1, 3), (1, 2, 0, 2)]


def arrays():
    for name, order, shape in itertools.product(TYPES, "<>", SHAPES):
        dtype = np.dtype(name if name in ("V2", "S3") else order + name)
        count = int(np.prod(shape))
        array = np.frombuffer(bytes(range(256)), dtype, count).reshape(shape)
        yield array
        if array.ndim > 1:
            yield np.asfortranarray(array)


def npy_files():
    for array in arrays():
        for version in ((1, 0), (2, 0), (3, 0)):
            file = io.BytesIO()
            np.lib.format.write_array(file, array, version)
            yield file.getvalue()


def npz_files():
    some = list(arrays())[::9]
    for one, two in zip(some, some[1:]):
        for save in (np.savez, np.savez_compressed):
            for members in ({}, {"x": one}, {"x": one, "y": two}):
                file = io.BytesIO()
                save(file, **members)
                yield file.getvalue()
    yield from itertools.islice(npy_files(), 0, None, 40)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("npy", "npz"):
        print(__doc__)
        sys.exit(2)
    files = npy_files() if sys.argv[1] == "npy" else npz_files()
    for number, content in enumerate(files):
        for first in (b"\0", b"\1"):  # what the target is asked
            name = f"{number}_{first[0]}"
            (pathlib.Path(sys.argv[2]) / name).write_bytes(first + content)


main()
