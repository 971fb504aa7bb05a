"""torch.topk on the device, on the workloads of gpu_bench: a line of JSON each.

usage: torch_topk.py WORKLOADS.cases

The tensor stays on the device; CUDA events around the call, the second cache
cold, the least of 30 runs.
"""

import json
import re
import sys

import torch

RUNS = 30
FLUSH_BYTES = 256 << 20
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
          "f64": torch.float64, "i64": torch.int64}


def least_us(work):
    """Returns the least microseconds of some calls."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    least = float("inf")
    for i in range(RUNS):
        flush.fill_(i)
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        least = min(least, start.elapsed_time(end) * 1000)
    return least


def main(path):
    """Measures each line of a file."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#") or not line.strip():
                continue
            name, tensor, axis, k, direction, data = [
                field.strip() for field in line.split("|")]
            dtype, shape = tensor.split(maxsplit=1)
            shape = [int(size) for size in re.findall(r"\d+", shape)]
            x = torch.randn(shape, device="cuda").to(DTYPES[dtype])
            if data == "constant":
                x.fill_(1)
            least = least_us(lambda x=x, axis=axis, k=k, direction=direction:
                             torch.topk(x, int(k), dim=int(axis),
                                        largest=direction == "largest"))
            print(json.dumps({"workload": name, "way": "torch",
                              "least_us": least,
                              "device": torch.cuda.get_device_name()}),
                  flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] == "--help":
        print(__doc__)
        sys.exit(0 if "--help" in sys.argv else 2)
    main(sys.argv[1])
