"""Both Python clients behind the same blocking interface, and fake servers."""

import asyncio
import concurrent.futures
import inspect
import json
import pathlib
import threading
import unittest

import client_package
import grpc
import topk_client
import topk_client.aio
from topk_client._stubs import tensor_pb2, topk_pb2

# The requests and responses that the C++ client is tested with too.
CASES = json.loads(
    (pathlib.Path(__file__).resolve().parents[2] / "clients/cpp"
     / "answer_cases.json").read_text(encoding="utf-8"))
# The event loop of this process, in a thread. It is never closed: gRPC logs
# events that arrive at a closed loop.
_LOOP = asyncio.new_event_loop()
threading.Thread(target=_LOOP.run_forever, daemon=True).start()


async def _awaited(function, *arguments, **options):
    result = function(*arguments, **options)
    return await result if hasattr(result, "__await__") else result


def in_loop(function, *arguments, **options):
    """Calls a function in the event loop and awaits an awaitable result."""
    return asyncio.run_coroutine_threadsafe(
        _awaited(function, *arguments, **options), _LOOP).result()


async def _in_threads(requests):
    """Yields the requests of a generator, which may wait for results."""
    end = object()
    while (request := await asyncio.to_thread(next, requests, end)) is not end:
        yield request


class AioClient:
    """topk_client.aio.Client with the blocking methods of topk_client.Client.
    """

    def __init__(self, *arguments, **options):
        self.client = in_loop(topk_client.aio.Client, *arguments, **options)

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(*arguments, **options):
            arguments = [_in_threads(one) if inspect.isgenerator(one) else one
                         for one in arguments]
            result = in_loop(method, *arguments, **options)
            return (self._each(result) if hasattr(result, "__anext__")
                    else result)
        return call

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _each(self, results):
        try:
            while True:
                yield in_loop(results.__anext__)
        except StopAsyncIteration:
            return
        finally:
            in_loop(results.aclose)


CLIENTS = (topk_client.Client, AioClient)


class ServerTest(unittest.TestCase):
    """Tests with a server, started with `flags`, and a client of it."""

    kind = topk_client.Client
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = client_package.start(cls.addClassCleanup, *cls.flags)
        cls.client = cls.kind(cls.server.target)
        cls.addClassCleanup(cls.client.close)


def response():
    """Returns a valid response for the largest element of an f32 vector."""
    return topk_pb2.TopKResponse(
        values=tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, shape=[1],
                                 data=bytes(4)),
        indices=tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I64, shape=[1],
                                  data=bytes(8)))


def answer_each(requests, _):
    """Answers the requests of a ComputeTopKMany with k = 1."""
    for _ in requests:
        yield topk_pb2.TopKResult(response=response()).SerializeToString()


def interceptors(kind):
    """Returns interceptors for clients of class `kind`, and the list to which
    the first adds the headers of each unary call. The second replaces the call
    of a stream with a generator of the responses."""
    seen = []

    def unary(_, proceed, details, request):
        seen.append(dict(tuple(details.metadata)))
        return proceed(details, request)

    def stream(_, proceed, details, requests):
        yield from proceed(details, requests)

    async def stream_async(_, proceed, details, requests):
        call = await proceed(details, requests)
        return (response async for response in call)

    rpc = grpc.aio if kind is AioClient else grpc
    return [
        type("Unary", (rpc.UnaryUnaryClientInterceptor,),
             {"intercept_unary_unary": unary})(),
        type("Stream", (rpc.StreamStreamClientInterceptor,),
             {"intercept_stream_stream":
              stream_async if kind is AioClient else stream})()], seen


def start_fake(add_cleanup, **methods):
    """Starts a server with handlers of raw messages. Returns its target."""
    handlers = {name: (grpc.unary_unary_rpc_method_handler(method)
                       if name == "ComputeTopK" else
                       grpc.stream_stream_rpc_method_handler(method))
                for name, method in methods.items()}
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(2),
        handlers=(grpc.method_handlers_generic_handler(
            "topk.v1.TopKService", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    add_cleanup(lambda: server.stop(None).wait())
    return f"127.0.0.1:{port}"


def start_quitting(add_cleanup):
    """Starts a server that aborts the first stream at the second request. It
    serves later streams normally."""
    streams = []

    def answer(requests, context):
        streams.append(None)
        for number, _ in enumerate(requests):
            if len(streams) == 1 and number == 1:
                context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
            yield topk_pb2.TopKResult(response=response()).SerializeToString()

    return start_fake(add_cleanup, ComputeTopKMany=answer)
