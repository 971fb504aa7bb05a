"""Compares a real server with NumPy, with random requests of every dialect,
version, data type and memory layout, through both clients and every method.

usage: client_oracle_test.py TOPKD      TOPK_TEST_SEED=7 for another seed
"""

import asyncio
import os
import unittest

import both_clients
import numpy as np
import topk_client.aio
from oracle import (ML_DTYPES, SMALL, TYPES, ml_dtypes, numbers, random_case)
from topk_client import _dtypes
from topk_client._stubs import tensor_pb2

SEED = int(os.environ.get("TOPK_TEST_SEED", "20261121"))
COUNT = 10_000


class Oracle(both_clients.ServerTest):
    def test_random_requests(self):
        print(f"seed {SEED}", flush=True)
        rng = np.random.default_rng(SEED)
        cases = [random_case(rng) for _ in range(COUNT)]
        for case in cases[:COUNT // 4]:
            case.check(self.client.compute_topk(**vars(case.request)))
        for case in cases[COUNT // 4:COUNT // 2]:
            case.check(self.client.compute_topk(
                stream=True, **vars(case.request)))
        many = cases[COUNT // 2:]
        answers = list(self.client.compute_topk_many(
            case.request for case in many))
        self.assertEqual(len(answers), len(many))
        for case, answer in zip(many, answers):
            case.check(answer)

    def test_random_requests_of_the_asyncio_client(self):
        rng = np.random.default_rng(SEED + 1)
        cases = [random_case(rng) for _ in range(COUNT // 4)]

        async def ask():
            async with topk_client.aio.Client(self.server.target) as client:
                for begin in range(0, len(cases), 50):
                    some = cases[begin:begin + 50]
                    answers = await asyncio.gather(*(
                        client.compute_topk(**vars(case.request),
                                            stream=number % 2 == 0)
                        for number, case in enumerate(some)))
                    for case, answer in zip(some, answers):
                        case.check(answer)
                requests = (case.request for case in cases)
                left = iter(cases)
                async for answer in client.compute_topk_many(requests):
                    next(left).check(answer)
                self.assertIsNone(next(left, None))

        asyncio.run(ask())

    def test_every_data_type_has_a_numpy_type(self):
        names = [name[len("DATA_TYPE_"):].lower()
                 for name, number in tensor_pb2.DataType.items() if number]
        self.assertEqual(set(names), {name.lower()
                                      for name in [*TYPES, *SMALL]})
        # NumPy has no names for these types. Their elements are codes in uint8.
        self.assertEqual(sorted(names), sorted(
            list(_dtypes.NUMPY_NAMES) + ["u1", "u3", "u6", "nf4"]))
        self.assertEqual(_dtypes.WIDTHS, {
            name.lower(): width for name, width in SMALL.items() if width < 8})

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_ml_dtypes_has_the_oracle_s_numbers(self):
        for name in SMALL.keys() & ML_DTYPES.keys():
            if dtype := getattr(ml_dtypes, ML_DTYPES[name], None):
                codes = np.arange(1 << SMALL[name], dtype=np.uint8)
                bits = (codes ^ 8) - np.uint8(8) if name == "I4" else codes
                np.testing.assert_array_equal(
                    bits.view(dtype).astype(np.float64), numbers(codes, name))


if __name__ == "__main__":
    unittest.main()
