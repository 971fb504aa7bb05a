"""Holds idle health watches, and prints how many are open at the end.

usage: watches.py TARGET COUNT SECONDS
"""

import json
import pathlib
import sys
import time

import grpc
from topk_client._stubs import health_pb2

CA = pathlib.Path("/tls/ca.crt")
WATCHES_PER_CONNECTION = 100


def main():
    target, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    watches = []
    for number in range(count):
        if number % WATCHES_PER_CONNECTION == 0:
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = (grpc.secure_channel(
                target, grpc.ssl_channel_credentials(CA.read_bytes()), options)
                       if CA.exists() else
                       grpc.insecure_channel(target, options))
            watch = channel.unary_stream(
                "/grpc.health.v1.Health/Watch",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString)
        watches.append(watch(health_pb2.HealthCheckRequest(),
                             timeout=seconds))
    end = time.monotonic() + seconds - 1
    while time.monotonic() < end:
        time.sleep(1)
    print(json.dumps({"open": sum(watch.is_active() for watch in watches)}))


if __name__ == "__main__":
    main()
