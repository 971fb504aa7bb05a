"""Compares a real server with NumPy, with random requests of every dialect,
version, data type and memory layout, through both clients and every method.

usage: client_oracle_test.py TOPKD      TOPK_TEST_SEED=7 for another seed
"""

import os
import unittest

import both_clients
import numpy as np
from oracle import SMALL, TYPES, random_case
from topk_client._stubs import tensor_pb2

SEED = int(os.environ.get("TOPK_TEST_SEED", "20261121"))


class Oracle(both_clients.ServerTest):
    count = 10_000

    def test_random_requests(self):
        print(f"seed {SEED}", flush=True)
        rng = np.random.default_rng(SEED)
        cases = [random_case(rng) for _ in range(self.count)]
        single, many = cases[:self.count // 2], cases[self.count // 2:]
        for number, case in enumerate(single):
            case.check(self.client.compute_topk(
                stream=number % 2 == 0, **vars(case.request)))
        answers = list(self.client.compute_topk_many(
            case.request for case in many))
        self.assertEqual(len(answers), len(many))
        for case, answer in zip(many, answers):
            case.check(answer)

    def test_every_data_type_has_a_numpy_type(self):
        names = [name[len("DATA_TYPE_"):].lower()
                 for name, number in tensor_pb2.DataType.items() if number]
        self.assertEqual(set(names), {name.lower()
                                      for name in [*TYPES, *SMALL]})


class Asyncio(Oracle):
    kind = both_clients.AioClient
    count = 1000
    test_every_data_type_has_a_numpy_type = None


if __name__ == "__main__":
    unittest.main()
