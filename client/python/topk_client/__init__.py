"""A client of TopK as a service: arrays in, arrays out; PyTorch tensors in,
PyTorch tensors out.

    with topk_client.Client("localhost:50051") as client:
        values, indices = client.topk(scores, k=5)

topk_client.aio has the same client for asyncio, and topk_client.testing has a
fake server for unit tests.
"""

from topk_client import aio
from topk_client._connection import VERSION as __version__
from topk_client._connection import Retry
from topk_client._stubs.topk_pb2 import Capabilities
from topk_client.client import Client
from topk_client.errors import TopKError
from topk_client.messages import (ArrayLike, Execution, Request, Response,
                                  SupportsDLPack, TopK)
from topk_client.shared_memory import Region, SharedMemory
from topk_client.specs import DirectML, Onnx, OpenVINO, Spec

__all__ = ["ArrayLike", "Capabilities", "Client", "DirectML", "Execution",
           "Onnx", "OpenVINO", "Region", "Request", "Response", "Retry",
           "SharedMemory", "Spec", "SupportsDLPack", "TopK", "TopKError",
           "__version__", "aio"]
