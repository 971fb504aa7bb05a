// Calls every method of a topkd.
//
// usage: node topk.js localhost:50051
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const protobuf = require("protobufjs");

const protos = path.join(__dirname, "../../../proto");
const definition = loader.loadSync("topk/v1/topk.proto", {
  includeDirs: [protos],
  oneofs: true,
});
const { TopKService } = grpc.loadPackageDefinition(definition).topk.v1;
const details = new protobuf.Root();
details.resolvePath = (_, file) => path.join(protos, file);
details.loadSync(["google/rpc/status.proto", "google/rpc/error_details.proto"]);

// Returns a request. Without data, it is the header of a stream.
function request(id, k, data) {
  return {
    tensor: { dataType: "DATA_TYPE_F32", shape: [4], data },
    spec: { dialect: "DIALECT_ONNX", version: 11 },
    onnx: { k: { value: k } },
    requestId: id,
  };
}

function text(values, indices) {
  const parts = [];
  for (let i = 0; i < values.length / 4; i++) {
    const value = values.readFloatLE(4 * i);
    parts.push(`${value} at ${indices.readBigInt64LE(8 * i)}`);
  }
  return parts.join(", ");
}

// Describes the ErrorInfo in the details of a google.rpc.Status.
function reason(status) {
  const url = "type.googleapis.com/google.rpc.ErrorInfo";
  const any = status.details.find((detail) => detail.type_url === url);
  const info = details.lookupType("google.rpc.ErrorInfo").decode(any.value);
  return `${info.reason} in ${info.metadata.field}`;
}

function errorReason(error) {
  const [bytes] = error.metadata.get("grpc-status-details-bin");
  return reason(details.lookupType("google.rpc.Status").decode(bytes));
}

function call(client, method, argument) {
  const deadline = Date.now() + 10000;
  return new Promise((resolve, reject) => {
    client[method](argument, { deadline }, (error, response) =>
      error ? reject(error) : resolve(response),
    );
  });
}

async function stream(client, data) {
  const call = client.streamTopK({ deadline: Date.now() + 10000 });
  call.write({ header: request("", 2) });
  call.write({ data: data.subarray(0, 5) }); // cut anywhere
  call.end({ data: data.subarray(5) });
  const values = [];
  const indices = [];
  for await (const chunk of call) {
    // The header contains the whole response if the response is small.
    values.push(chunk.header?.values.data ?? chunk.values ?? Buffer.of());
    indices.push(chunk.header?.indices.data ?? chunk.indices ?? Buffer.of());
  }
  const joined = [values, indices].map((parts) => Buffer.concat(parts));
  console.log("StreamTopK:", text(...joined));
}

// Sends two requests on one stream. The server rejects the second one.
async function many(client, data) {
  const call = client.computeTopKMany({ deadline: Date.now() + 10000 });
  call.write(request("one", 2, data));
  call.end(request("two", 9, data));
  for await (const { requestId, response, error } of call) {
    const outcome = error
      ? reason(error)
      : text(response.values.data, response.indices.data);
    console.log(`ComputeTopKMany ${requestId}: ${outcome}`);
  }
}

async function main() {
  const plain = grpc.credentials.createInsecure();
  const client = new TopKService(process.argv[2], plain);
  const data = Buffer.from(Float32Array.of(1, 9, 3, 7).buffer); // little-endian

  const capabilities = await call(client, "getCapabilities", {});
  console.log("GetCapabilities:", capabilities.operators[0].name);

  const response = await call(client, "computeTopK", request("", 2, data));
  console.log("ComputeTopK:", text(response.values.data, response.indices.data));

  await stream(client, data);
  await many(client, data);

  await call(client, "computeTopK", request("", 9, data)).catch((error) =>
    console.log(`error: ${error.details}, ${errorReason(error)}`),
  );
  client.close();
}

main();
