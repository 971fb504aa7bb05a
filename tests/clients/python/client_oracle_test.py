"""Compares a real server, byte for byte, with NumPy, with random requests of
every dialect, version, data type and memory layout, through both clients and
every method; merged shards with a server's result over the whole axis; and the
fake server for unit tests. Rejects wrong responses, like the C++ library.

usage: client_oracle_test.py TOPKD      TOPK_TEST_SEED=7 for another seed
"""

import dataclasses
import os
import random
import unittest

import both_clients
import grpc
import numpy as np
import topk_client
from both_clients import CLIENTS, AioClient, ServerTest
from google.protobuf import json_format
from oracle import SMALL, TYPES, random_case
from topk_client import DirectML, Onnx, OpenVINO, Request
from topk_client._stubs import topk_pb2
from topk_client.merge import Partial, merge
from topk_client.messages import Call
from topk_client.testing import fake_server

SEED = int(os.environ.get("TOPK_TEST_SEED", "20261122"))
ROUNDS = 12  # for each type


def bytes_of(partial):
    return (partial.values.shape, partial.values.dtype, partial.indices.dtype,
            partial.values.tobytes(), partial.indices.tobytes())


class Oracle(ServerTest):
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


class AsyncioOracle(Oracle):
    kind = AioClient
    count = 1000


class Merge(ServerTest):
    def shards(self, rng, request, whole):
        """Yields a Partial of each shard. Some shards are empty."""
        x, spec, data_type = request.tensor, request.spec, request.data_type
        axis = spec.axis % x.ndim
        n = x.shape[axis]
        cuts = sorted(int(c) for c in rng.integers(
            0, n + 1, int(rng.integers(0, 7))))
        for begin, end in zip([0, *cuts], [*cuts, n]):
            shard = np.take(x, range(begin, end), axis)
            if begin == end:
                yield dataclasses.replace(
                    whole, values=shard,
                    indices=np.zeros(shard.shape, whole.indices.dtype))
                continue
            small = dataclasses.replace(spec, k=min(spec.k, end - begin))
            answer = self.client.compute_topk(
                shard, small, data_type=data_type, index_offset=begin)
            yield Partial.of(answer, spec, data_type=data_type,
                             size=end - begin)

    def test_any_grouping_of_shards_equals_one_server_s_result(self):
        print(f"seed {SEED}", flush=True)
        rng, pick = np.random.default_rng(SEED), random.Random(SEED)
        for name in [*TYPES, *SMALL]:
            for turn in range(ROUNDS):
                request = random_case(rng, name, plain=True).request
                spec = request.spec
                whole = Partial.of(self.client.compute_topk(**vars(request)),
                                   spec, data_type=request.data_type)
                with self.subTest(name, turn=turn, request=request):
                    pool = [*self.shards(rng, request, whole)]
                    self.assertEqual(bytes_of(merge(pool)), bytes_of(whole))
                    while len(pool) > 1:
                        pick.shuffle(pool)
                        some = pick.randint(2, len(pool))
                        pool = [merge(pool[:some]), *pool[some:]]
                    self.assertEqual(bytes_of(merge(pool)), bytes_of(whole))

    def test_the_caller_s_arrays_do_not_change(self):
        part = Partial(np.array([3., 1.]), np.array([0, 1]), 2)
        merged = merge([part])
        merged.values[0] = merged.indices[0] = 9
        self.assertEqual((part.values[0], part.indices[0]), (3, 0))

    def test_errors_name_both_requests(self):
        x = np.zeros((2, 3), np.float32)
        first = Partial(x, np.zeros((2, 3), np.int64), 5, size=3)
        for change, words in (
                ({"k": 4}, "k is 4 in partial 1, but 5 in partial 0"),
                ({"values": x.astype(np.float16), "data_type": None},
                 "data_type is 'f16' in partial 1, but 'f32' in partial 0"),
                ({"axis": 0, "size": 2},
                 "axis is 0 in partial 1, but 1 in partial 0"),
                ({"values": x[:1], "indices": first.indices[:1]},
                 r"shape without the axis is \(1,\) in partial 1, but \(2,\) "),
                ({"largest": False},
                 "largest is False in partial 1, but True in"),
                ({"order": "index"},
                 "order is 'index' in partial 1, but 'value' in"),
                ({"indices": first.indices.astype(np.int32)},
                 "index type is 'int32' in partial 1, but 'int64' in")):
            with self.assertRaisesRegex(ValueError, words):
                merge([first, dataclasses.replace(first, **change)])

    def test_invalid_partials_are_rejected(self):
        x, i = np.zeros(3), np.arange(3)
        for wrong in ((x, i[:2], 3), (x, i, 2), (x, i, 0), (x, i, 3, 1),
                      (x, i, 3, 0, True, "none")):
            with self.assertRaises(ValueError):
                Partial(*wrong)
        with self.assertRaisesRegex(
                ValueError, "^there are 3 elements .* k = 4.* size = 9$"):
            Partial(x, i, 4, size=9)
        masked = np.ma.array([2.0], mask=[True])
        for wrong in ((masked, np.array([0])), (masked.data, masked)):
            with self.assertRaisesRegex(TypeError, "masked"):
                Partial(*wrong, k=1)
        with self.assertRaises(TypeError):
            Partial(x.astype(complex), i, 3)
        with self.assertRaisesRegex(ValueError, "^data_type is 'i64', but"):
            Partial(x, i, 3, data_type="i64")
        big = np.array([0, 1 << 63, 1], np.uint64)
        for wrong, kind, text in (
                ({"k": "2"}, TypeError, "^k is '2', not an integer$"),
                ({"axis": 0.0}, TypeError, "^axis is 0.0, not an integer$"),
                ({"size": -7}, ValueError, "^size = -7 must be 0 or not less "
                 "than the axis size, 3$"),
                ({"size": 1}, ValueError, "^size = 1 must be 0 or not less "),
                ({"largest": "no"}, TypeError, "^largest is 'no', not a bool"),
                ({"values": [1]}, TypeError, "^values is a list, not a NumPy "),
                ({"indices": i * 1.0}, TypeError, "^the indices are float64; "
                 "they must be int32, int64, uint32 or uint64$"),
                ({"indices": i - 1}, ValueError, "^index -1 is outside 0 "),
                ({"indices": big}, ValueError, f"^index {1 << 63} is outside")):
            with self.assertRaisesRegex(kind, text):
                Partial(**{"values": x, "indices": i, "k": 3, **wrong})
        Partial(x, i + (2**63 - 3), np.int8(3), size=np.int8(3),
                largest=np.bool_(True))
        with self.assertRaisesRegex(TypeError, "^partial 0 is a int, not a "):
            merge([1])
        with self.assertRaises(ValueError):
            merge([])
        for order in ("value", "index"):
            again = Partial(x, i, 3, order=order)
            with self.assertRaisesRegex(ValueError, "index 0 is in two"):
                merge([again, again])
        for values, indices, largest in (
                ([3, 9], [4, 5], True), ([4, 1], [6, 7], False),
                ([5, 5], [3, 1], True)):
            with self.assertRaisesRegex(ValueError, "^partial 0 is not sorted"):
                merge([Partial(np.array(values), np.array(indices), 2,
                               largest=largest)])
        answer = self.client.compute_topk(x, Onnx(1), output="values")
        with self.assertRaises(ValueError):
            Partial.of(answer, Onnx(1))


class Fake(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fake = fake_server()
        target = fake.__enter__()
        cls.addClassCleanup(fake.__exit__, None, None, None)
        cls.fakes = [kind(target) for kind in CLIENTS]
        for client in cls.fakes:
            cls.addClassCleanup(client.close)

    def test_random_requests(self):
        rng = np.random.default_rng(20261128)
        cases = [random_case(rng) for _ in range(1000)]
        for number, case in enumerate(cases):
            case.check(self.fakes[0].compute_topk(
                **vars(case.request), stream=number % 2 == 0))
        for client in (*self.fakes, self.client):
            results = client.compute_topk_many(case.request for case in cases)
            for case, result in zip(cases, results):
                case.check(result)

    def test_errors_equal_those_of_the_server(self):
        x = np.zeros((2, 3))
        half = x.astype(np.float16)
        requests = [(x, Onnx(0)), (x, Onnx(4)), (x, Onnx(1, axis=2)),
                    (x, Onnx(1, axis=-3)), (x, OpenVINO(-1, 0, "min", "none")),
                    (x, OpenVINO(3, 0, "min", "none")), (x[0, 0], Onnx(1)),
                    (x[:0], Onnx(4)), (half, DirectML(1, -1, "increasing")),
                    (half, DirectML(9, 1, "increasing"))]
        # The messages of the following errors differ.
        requests += [(x, spec) for spec in (
            Onnx(1, largest=2), Onnx(1, sorted=-1), Onnx(1, largest=0,
                                                         version=10),
            Onnx(1, sorted=0, version=1), Onnx(1, version=2),
            OpenVINO(1, 0, "up", "none"), OpenVINO(1, 0, "max", "up"),
            OpenVINO(1, 0, "max", "value", "u8"),
            OpenVINO(1, 0, "max", "value", "i64", version=1),
            OpenVINO(1, 0, "max", "none", stable=True),
            OpenVINO(1, 0, "max", "value", stable=True, version=3),
            OpenVINO(1, 0, "max", "value", version=2),
            DirectML(1, 0, "increasing"))]
        requests += [(half, spec) for spec in (
            DirectML(3, 1, "increasing", strict=True), DirectML(1, 1),
            DirectML(1, 1, "increasing", version=0),
            DirectML(1, 1, "increasing", version=2),
            DirectML(1, 1, "increasing", index_data_type="i32"))]
        requests += [(x.astype(np.int8), Onnx(1, version=10)),
                     (half[:0], DirectML(1, 1, "increasing")),
                     (half[:, :0], DirectML(1, 0, "increasing"))]
        for tensor, spec in requests:
            with self.subTest(spec=spec):
                errors = []
                for client in (self.client, *self.fakes):
                    for call in (
                            lambda c=client: c.compute_topk(tensor, spec),
                            lambda c=client: c.compute_topk(tensor, spec,
                                                            stream=True)):
                        with self.assertRaises(topk_client.TopKError) as caught:
                            call()
                        errors.append(caught.exception)
                    errors += client.compute_topk_many([Request(tensor, spec)])
                if errors[0].field[-2:] == ".k" and "strict" not in str(spec):
                    self.assertEqual(len({str(e) for e in errors}), 1, errors)
                self.assertEqual(len({(error.code, error.reason, error.field)
                                      for error in errors}), 1, errors)

        for client in (self.client, *self.fakes):
            with self.assertRaises(topk_client.TopKError) as caught:
                client.compute_topk(x, OpenVINO(1, 1, "max", "value"),
                                    index_offset=2**31 - 2)
            self.assertEqual(caught.exception.reason, "INDEX_TYPE_TOO_SMALL")

    def test_other_methods(self):
        errors = []
        for client in (self.client, *self.fakes):
            self.assertEqual(client.get_capabilities().build_version,
                             topk_client.__version__)
            for service in ("", "topk.v1.TopKService"):
                self.assertTrue(client.is_serving(service))
            with self.assertRaises(topk_client.TopKError) as caught:
                client.is_serving("nosuch")
            errors.append((str(caught.exception), caught.exception.field))
        self.assertEqual(len(set(errors)), 1, errors)
        with topk_client.SharedMemory(12) as memory, self.assertRaisesRegex(
                topk_client.TopKError, "^UNIMPLEMENTED: "):
            self.fakes[0].compute_topk(
                memory.region(memory.array((3,), np.float32)), Onnx(1))
        for client in self.fakes:
            large = np.zeros(3 << 20)
            large[5] = 1
            self.assertEqual(client.topk(large, 1).indices.tolist(), [5])


# The requests of the same names in the cases.
REQUESTS = {
    "onnx": Request(np.zeros((2, 5), np.float32), Onnx(2), request_id="a"),
    "packed bits": Request(np.zeros(5, np.uint8), OpenVINO(
        3, 0, "max", "value"), data_type="u4"),
    "no slices": Request(np.zeros((0, 5), np.float32), Onnx(2)),
    "values only": Request(np.zeros(5, np.float32), Onnx(1), output="values"),
    "indices only": Request(np.zeros(5, np.float32), Onnx(1),
                            output="indices")}


def response_of(case, change):
    response = dict(both_clients.CASES["requests"][case]["response"])
    for key, new in change.items():
        response[key] = new and {**response.get(key, {}), **new}
    return json_format.ParseDict(response, topk_pb2.TopKResponse())


class Responses(unittest.TestCase):
    def test_other_responses_are_rejected(self):
        for name, request in REQUESTS.items():
            Call(request).decode(response_of(name, {}))
        for wrong in both_clients.CASES["wrong"]:
            if wrong["name"] == "an output that is not wanted":
                continue  # ignored
            with self.subTest(f"{wrong['of']}: {wrong['name']}"):
                with self.assertRaises(topk_client.TopKError) as caught:
                    Call(REQUESTS[wrong["of"]]).decode(
                        response_of(wrong["of"], wrong["change"]))
                error = caught.exception
                self.assertEqual(error.code, grpc.StatusCode.INTERNAL)
                self.assertEqual(error.reason, "BAD_ANSWER")
                self.assertRegex(error.field, "^response.(values|indices)$")


if __name__ == "__main__":
    unittest.main()
