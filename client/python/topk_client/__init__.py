"""A client of TopK as a service: NumPy in, NumPy out.

    with topk_client.Client("localhost:50051") as client:
        answer = client.compute_topk(scores, topk_client.Onnx(k=5))

topk_client.aio has the same for asyncio.
"""

from topk_client.client import Client
from topk_client.errors import TopKError
from topk_client.messages import Answer, Execution, Request
from topk_client.shared_memory import Region, SharedMemory
from topk_client.specs import DirectML, Onnx, OpenVINO, TensorDesc

__all__ = ["Answer", "Client", "DirectML", "Execution", "Onnx", "OpenVINO",
           "Region", "Request", "SharedMemory", "TensorDesc", "TopKError"]
