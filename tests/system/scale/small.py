"""Compares small arrays of every chunking, byte for byte: on Dask's threads and
on Ray with one server."""

import itertools

import dask
import dask.array as da
import numpy as np
import pyarrow
import ray
import topk_client
import topk_client.dask
import topk_client.ray

CHUNKS = ((60, 100), (7, 700), (13, 33), (60, 700), ((0, 60), (0, 300, 0, 400)))
SIZE = (60, 700)
K = 20


def elements(dtype, seed):
    """Returns random elements with ties and, for float types, NaNs."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 50, SIZE).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 3] = np.nan
        x[x == 0] = -0.0
    return x


def questions(client):
    """Yields a number, an array, topk()'s arguments and the server's result."""
    for number, (dtype, *how) in enumerate(itertools.product(
            ("float32", "float16", "int64"), (0, 1), (True, False),
            ("value", "index"))):
        axis, largest, order = how
        x = elements(dtype, number)
        whole = client.compute_topk(x, topk_client.OpenVINO(
            K, axis, "max" if largest else "min", order, "i64"))
        yield number, x, how, (whole.values, whole.indices)


def same(got, wanted):
    """Returns whether two pairs (values, indices) are byte-identical."""
    return all(a.dtype == b.dtype and a.shape == b.shape
               and a.tobytes() == b.tobytes() for a, b in zip(got, wanted))


def dask_is_right(client, servers):
    """Returns the number of results, all of which must be right."""
    count = 0
    for number, x, (axis, largest, order), wanted in questions(client):
        for chunks in CHUNKS:
            got = topk_client.dask.topk(
                da.from_array(x, chunks=chunks), K, axis, largest, order=order,
                servers=servers, shared_memory=number % 2 == 0, split_every=3)
            shapes = [part.shape for part in got]
            got = dask.compute(*got, scheduler="threads")
            if not same(got, wanted) or shapes != [a.shape for a in got]:
                raise AssertionError(f"{x.dtype}, axis {axis}, {largest}, "
                                     f"{order}, {chunks} differs")
            count += 1
    return count


def ray_is_right(client, servers):
    """Like dask_is_right(), for Ray's lists, grids and datasets. Also checks
    that a dataset with nulls is rejected."""
    nulls = ray.data.from_arrow([pyarrow.table({"data": [1, 2]}),
                                 pyarrow.table({"data": [1, None]})])
    try:
        topk_client.ray.topk(nulls, 1, 0, column="data", servers=servers)
    except TypeError:
        pass
    else:
        raise AssertionError("a dataset with nulls was accepted")
    count = 0
    for number, x, (axis, largest, order), wanted in questions(client):
        how = {"servers": servers, "shared_memory": number % 2 == 0,
               "order": order, "split_every": 3}

        def block(output):
            return np.block([[ray.get(ref) for ref in row] for row in output])

        parts = [ray.put(part) for part in np.array_split(x, 13, axis)]
        listed = topk_client.ray.topk(parts, K, axis, largest, **how)
        grid = [[ray.put(part) for part in np.array_split(row, 7, 1)]
                for row in np.array_split(x, 4, 0)]
        gridded = topk_client.ray.topk(grid, K, axis, largest, **how)
        answers = [tuple(ray.get(output[0]) for output in listed),
                   tuple(map(block, gridded))]
        if number % 8 == 0:
            rows = ray.data.from_numpy(np.array_split(x, 5, 0))
            answers.append(tuple(
                np.concatenate(ray.get(output.to_numpy_refs(column="data")))
                for output in topk_client.ray.topk(
                    rows, K, axis, largest, column="data", **how)))
        if not all(same(got, wanted) for got in answers):
            raise AssertionError(f"{x.dtype}, axis {axis}, {largest}, {order} "
                                 "differs")
        count += len(answers)
    return count
