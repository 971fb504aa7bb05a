"""Type checkers must know the types of results: PyTorch tensors for a PyTorch
tensor, otherwise NumPy arrays."""

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt
from topk_client import Client, TopK, aio
from typing_extensions import assert_type

Array = npt.NDArray[Any]


class Tensor:
    """Has the methods of torch.Tensor that matter for types."""

    def bfloat16(self, memory_format: Any = None) -> "Tensor":
        return self

    def __array__(self, dtype: Any = None) -> Any:
        return dtype

    def __dlpack__(self, stream: Any = -1) -> Any:
        return stream

    def __dlpack_device__(self) -> tuple[Any, int]:
        return 1, 0


def blocking(client: Client, tensor: Tensor,
             array: npt.NDArray[np.float32]) -> None:
    assert_type(client.topk(array, 2, timeout=3), TopK[Array])
    assert_type(client.topk([[1.5, 2]], k=2).values, Array)
    assert_type(client.topk(tensor, 2, 0, False), TopK[Tensor])
    assert_type(client.topk_async(array, 2), Future[TopK[Array]])
    assert_type(client.topk_async(tensor, 2, timeout=3), Future[TopK[Tensor]])
    assert_type(client.topk_many([array, [1]], 2),
                Generator[TopK[Array], None, None])
    assert_type(client.topk_many([tensor], 2),
                Generator[TopK[Tensor], None, None])


async def asynchronous(client: aio.Client, tensor: Tensor,
                       array: npt.NDArray[np.float32]) -> None:
    assert_type(await client.topk(array, 2), TopK[Array])
    assert_type(await client.topk(tensor, 2), TopK[Tensor])
    async for values, indices in client.topk_many([tensor], 2):
        assert_type((values, indices), tuple[Tensor, Tensor])
    async for result in client.topk_many([array], 2):
        assert_type(result, TopK[Array])
