"""Tests the code for shards that Dask and Ray workers share, without either.

usage: client_shards_test.py TOPKD
"""

import dataclasses
import os
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

import both_clients
import grpc
import numpy as np
import topk_client
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2, status_pb2
from topk_client import Onnx, _shards

try:
    import dask.array as da
    import topk_client.dask
except ImportError:
    da = None

NOBODY = "127.0.0.1:1"


def question(servers, k=3, axis=-1, shared_memory=False, data_type=None,
             **options):
    return _shards.Question.of(k, axis, 1, True, "value", data_type, servers,
                               shared_memory, options)


def objects():
    return {name for name in os.listdir("/dev/shm")
            if name.startswith("topk-shard-")}


# A worker thread that forks between two shards.
FORKS = """
import os, sys, threading
import numpy as np
from topk_client import _shards

def work():
    mine = _shards._in_shared_memory(np.arange(3.0))
    ready, done = os.pipe()
    child = os.fork()
    if not child:
        theirs = _shards._in_shared_memory(np.full(3, 9.0))
        os.write(done, str(theirs.array).encode())
        sys.stdin.read()
        os._exit(0)
    theirs = os.read(ready, 100).decode()
    print(mine.array, theirs)
    print(os.getpid(), child, flush=True)
    sys.stdin.read()

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


class Shards(both_clients.ServerTest):
    flags = ("--allow-shared-memory",)

    def test_results_equal_the_server_s(self):
        x = np.random.default_rng(1).integers(0, 9, 5000).astype(np.float32)
        wanted = self.client.compute_topk(x, Onnx(3), index_offset=70)
        for shared_memory in (False, True, True):
            got = _shards.answer(x, 70, question(self.server.target,
                                                 shared_memory=shared_memory))
            np.testing.assert_array_equal(got.values, wanted.values)
            np.testing.assert_array_equal(got.indices, wanted.indices)

    def test_short_and_empty_shards(self):
        for size in (0, 2):
            got = _shards.answer(np.ones(size, np.float32), 5,
                                 question(self.server.target, k=7))
            self.assertEqual(list(got.indices), [5, 6][:size])
            self.assertEqual(got.k, 7)

    def test_masks_and_nulls_are_refused(self):
        masked = np.ma.array([1.0, 2.0], mask=[False, True])
        for shared_memory in (False, True):
            for shard in (masked, masked[:0]):
                with self.assertRaisesRegex(TypeError, "masked"):
                    _shards.answer(shard, 0, question(
                        self.server.target, shared_memory=shared_memory))

    @unittest.skipUnless(da, "Dask is not installed")
    def test_dask(self):
        x = da.arange(9, chunks=3)
        values, indices = topk_client.dask.topk(x, 2,
                                                servers=self.server.target)
        self.assertEqual((values.compute().tolist(),
                          indices.compute().tolist()), ([8, 7], [8, 7]))
        values, indices = topk_client.dask.topk(
            [2**63, 2**63 + 1, 1], 1, servers=self.server.target)
        self.assertEqual((values.compute().tolist(), indices.compute().tolist()
                          ), ([2**63 + 1], [1]))
        values, _ = topk_client.dask.topk([x, 2 * x], 1, 0,
                                          servers=self.server.target)
        self.assertEqual(values.compute()[0, -1], 16)
        hidden = x.map_blocks(np.ma.masked_greater, 7, meta=np.empty(0, int))
        for masked in (np.ma.array([1, 2]), da.ma.masked_greater(x, 7), hidden):
            with self.assertRaisesRegex(TypeError, "masked"):
                topk_client.dask.topk(
                    masked, 1, servers=self.server.target)[0].compute()

    def test_a_token_is_not_put_into_a_task_graph(self):
        for options in ({"token": "0123456789abcdef"}, {"metadata": [
                ("authorization", "Bearer 0123456789abcdef")]}):
            with self.assertRaisesRegex(TypeError, "pass token_file$"
                                        ) as caught:
                question(NOBODY, **options)
            self.assertNotIn("0123456789", str(caught.exception))

    def test_small_types_are_sent_in_messages(self):
        got = _shards.answer(np.array([1, 6, 3], np.uint8), 0, question(
            self.server.target, 1, shared_memory=True, data_type="u3"))
        self.assertEqual(list(got.values), [6])

    def test_an_absent_server_is_skipped(self):
        for _ in range(4):  # the first server varies
            got = _shards.answer(np.arange(9), 0, question(
                [NOBODY, self.server.target]))
            self.assertEqual(list(got.indices), [8, 7, 6])
        with self.assertRaisesRegex(topk_client.TopKError, "^UNAVAILABLE:"):
            _shards.answer(np.arange(9), 0, question([NOBODY, NOBODY]))

    def test_a_shard_takes_no_longer_than_one_timeout(self):
        calls = []
        details = status_pb2.Status(code=8, message="full")
        details.details.add().Pack(error_details_pb2.RetryInfo(
            retry_delay=duration_pb2.Duration(seconds=3)))

        def reject(_, context):
            calls.append(None)
            context.set_trailing_metadata((
                ("grpc-status-details-bin", details.SerializeToString()),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")

        target = both_clients.start_fake(self.addCleanup, ComputeTopK=reject)
        begin = time.monotonic()
        with self.assertRaisesRegex(topk_client.TopKError, "^RESOURCE_"):
            _shards.answer(np.arange(9), 0, question([target, target],
                                                     timeout=5))
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(len(calls), 4)

    def test_invalid_requests_are_not_retried(self):
        for _ in range(2):  # the first server varies
            with self.assertRaisesRegex(topk_client.TopKError, "^INVALID_"):
                _shards.answer(np.arange(9), 0, dataclasses.replace(
                    question([NOBODY, self.server.target]),
                    spec=topk_client.OpenVINO(3, 0, "up", "value")))
        for wrong in ({"k": 0}, {"axis": 1}, {"servers": []}):
            with self.assertRaises(ValueError):
                question(**{"servers": NOBODY, **wrong})
        for wrong in ({"k": 2.7}, {"axis": 0.0}, {"shared_memory": "no"},
                      {"metadata": {"id": "42"}}):
            with self.assertRaises(TypeError):
                question(NOBODY, **wrong)

    def test_only_chunks_of_killed_workers_are_removed(self):
        # A forked child has its own buffer, and must also drop its share of the
        # lock. Otherwise the buffers of a killed parent would not count as
        # abandoned while the child lives.
        _shards.answer(np.arange(50), 0, question(self.server.target,
                                                  shared_memory=True))
        forks = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.addCleanup(forks.__exit__, None, None, None)
        self.assertEqual(forks.stdout.readline().split(),
                         ["[0.", "1.", "2.]", "[9.", "9.", "9.]"])
        parent, child = map(int, forks.stdout.readline().split())

        def owners():
            return {pid for pid in (os.getpid(), parent, child)
                    for name in objects() if f"-{pid}-" in name}

        os.kill(parent, signal.SIGKILL)
        forks.wait()
        _shards.remove_abandoned()  # keeps objects that may not be locked yet
        self.assertEqual(owners(), {os.getpid(), parent, child})
        with mock.patch.object(_shards, "_NEW_SECONDS", 0):
            _shards.remove_abandoned()
        self.assertEqual(owners(), {os.getpid(), child})
        forks.stdin.close()  # ends the child


if __name__ == "__main__":
    unittest.main()
