"""The array of the scale test: a file of random float32, read in place.

Multiples of 2^-24 below 1, so that of 2^30 each occurs about 64 times: ties
lie across chunks. The file is the same for the same size.
"""

import os

import numpy as np

CHUNK = 1 << 24  # elements, 64 MiB


def make(path, elements):
    """Writes the file, unless it is there."""
    if os.path.exists(path) and os.path.getsize(path) >= 4 * elements:
        return
    array = np.memmap(path, np.float32, "w+", shape=(elements,))
    for number, begin in enumerate(range(0, elements, CHUNK)):
        part = array[begin:begin + CHUNK]
        np.random.default_rng([elements, number]).random(
            out=part, dtype=np.float32)
    array.flush()


def view(path, shape, location=None):
    """Returns the file as an array of the shape, or the part of it that
    [(begin, end), ...] says; mapped for as long as it is held."""
    if location is None:
        return np.memmap(path, np.float32, "r", shape=shape)
    begin = [begin for begin, _ in location]
    part = tuple(end - begin for begin, end in location)
    offset = int(np.ravel_multi_index(begin, shape))
    if all(n == 1 for n in part[:-1]):  # map no more than is wanted
        return np.memmap(path, np.float32, "r", 4 * offset, part)
    return view(path, shape)[tuple(slice(*ends) for ends in location)]
