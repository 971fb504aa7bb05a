"""A client of TopK as a service: NumPy in, NumPy out.

    with topk_client.Client("localhost:50051") as client:
        values, indices = client.topk(scores, k=5)

topk_client.aio has the same client for asyncio.
"""

from topk_client import aio
from topk_client._stubs.topk_pb2 import Capabilities
from topk_client.client import Client
from topk_client.errors import TopKError
from topk_client.messages import (Answer, ArrayLike, Execution, Request,
                                  SupportsDLPack)
from topk_client.shared_memory import Region, SharedMemory
from topk_client.specs import DirectML, Onnx, OpenVINO, Spec, TensorDesc

__all__ = ["Answer", "ArrayLike", "Capabilities", "Client", "DirectML",
           "Execution", "Onnx", "OpenVINO", "Region", "Request", "SharedMemory",
           "Spec", "SupportsDLPack", "TensorDesc", "TopKError", "aio"]
