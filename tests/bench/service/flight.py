"""Arrow Flight as users write it: a tensor of f32 sent in record batches.

usage: flight.py serve READY_FILE
       flight.py send ADDRESS BYTES SECONDS

The server reads every batch and keeps none. The client sends the tensor by
DoPut in batches of 1 MiB for the given time, at least once, and prints the
microseconds of each call.
"""

import os
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.flight

BATCH_ELEMENTS = (1 << 20) // 4


class Server(pa.flight.FlightServerBase):
    def do_put(self, context, descriptor, reader, writer):
        for _ in reader:
            pass


def serve(ready):
    server = Server("grpc://127.0.0.1:0")
    with open(f"{ready}.new", "w", encoding="utf-8") as file:
        file.write(f"127.0.0.1:{server.port}\n")
    os.replace(f"{ready}.new", ready)
    server.serve()


def send(address, size, seconds):
    x = pa.array(np.arange(size // 4, dtype=np.float32))
    batches = pa.table({"x": x}).to_batches(max_chunksize=BATCH_ELEMENTS)
    client = pa.flight.connect(f"grpc://{address}")
    descriptor = pa.flight.FlightDescriptor.for_path("x")

    def put():
        writer, _ = client.do_put(descriptor, batches[0].schema)
        for batch in batches:
            writer.write_batch(batch)
        writer.close()

    put()  # connected, and memory is there from now on
    begin = time.perf_counter()
    while True:
        start = time.perf_counter()
        put()
        end = time.perf_counter()
        print((end - start) * 1e6)
        if end - begin >= seconds:
            break


def main():
    if sys.argv[1:2] == ["serve"] and len(sys.argv) == 3:
        serve(sys.argv[2])
    elif sys.argv[1:2] == ["send"] and len(sys.argv) == 5:
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
