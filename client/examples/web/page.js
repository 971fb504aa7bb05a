// Calls a topkd behind Envoy over gRPC-Web and shows the results.
//
// usage: open index.html?server=http://localhost:50050
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { ErrorInfoSchema } from "./stubs/google/rpc/error_details_pb.js";
import { DataType } from "./stubs/topk/v1/tensor_pb.js";
import { Dialect, TopKService } from "./stubs/topk/v1/topk_pb.js";

const server = new URLSearchParams(location.search).get("server");
const client = createClient(
  TopKService,
  createGrpcWebTransport({ baseUrl: server ?? "http://localhost:50050" }),
);

async function topK(numbers, k) {
  const response = await client.computeTopK({
    tensor: {
      dataType: DataType.F32,
      shape: [BigInt(numbers.length)],
      source: { case: "data", value: new Uint8Array(numbers.buffer) },
    },
    spec: { dialect: Dialect.ONNX, version: 11 },
    attributes: {
      case: "onnx",
      value: { k: { source: { case: "value", value: BigInt(k) } } },
    },
  });
  // Copy the bytes, because they may be misaligned in the message.
  const bytes = (tensor) => tensor.source.value.slice().buffer;
  return {
    values: new Float32Array(bytes(response.values)),
    indices: new BigInt64Array(bytes(response.indices)),
  };
}

function show(text) {
  document.body.append(Object.assign(document.createElement("p"), {
    textContent: text,
  }));
}

async function main() {
  const { values, indices } = await topK(Float32Array.of(1, 9, 3, 7), 2);
  show(`values ${values}, indices ${indices}`);
  try {
    await topK(Float32Array.of(1, 9, 3, 7), 9);
  } catch (caught) {
    const error = ConnectError.from(caught);
    const [info] = error.findDetails(ErrorInfoSchema);
    show(`${Code[error.code]}: ${info.reason} in ${info.metadata.field}`);
  }
}

main().catch((error) => show(`failed: ${error}`));
