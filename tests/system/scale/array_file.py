"""The array of the scale test: a memory-mapped file of random float32.

The elements are multiples of 2^-24 below 1. Among 2^30 elements each value
occurs about 64 times, so that ties span chunks. The content depends only on the
size.
"""

import os

import numpy as np

CHUNK = 1 << 24  # elements, 64 MiB


def make(path, elements):
    """Writes the file unless it exists."""
    if os.path.exists(path) and os.path.getsize(path) >= 4 * elements:
        return
    array = np.memmap(path, np.float32, "w+", shape=(elements,))
    for number, begin in enumerate(range(0, elements, CHUNK)):
        part = array[begin:begin + CHUNK]
        np.random.default_rng([elements, number]).random(
            out=part, dtype=np.float32)
    array.flush()


def view(path, shape, location=None):
    """Maps the file as an array of this shape. Returns the array, or its part
    `location`, [(begin, end), ...]. The mapping lives as long as the result."""
    if location is None:
        return np.memmap(path, np.float32, "r", shape=shape)
    begin = [begin for begin, _ in location]
    part = tuple(end - begin for begin, end in location)
    offset = int(np.ravel_multi_index(begin, shape))
    if all(n == 1 for n in part[:-1]):  # map only the requested part
        return np.memmap(path, np.float32, "r", 4 * offset, part)
    return view(path, shape)[tuple(slice(*ends) for ends in location)]
