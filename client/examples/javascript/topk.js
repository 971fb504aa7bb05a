// Asks a topkd for the two largest of four numbers.
//
// usage: node topk.js localhost:50051
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const definition = loader.loadSync("topk/v1/topk.proto", {
  includeDirs: [path.join(__dirname, "../../../proto")],
  longs: Number,
});
const { TopKService } = grpc.loadPackageDefinition(definition).topk.v1;
const client = new TopKService(
  process.argv[2],
  grpc.credentials.createInsecure(),
);

const numbers = Float32Array.of(1, 9, 3, 7); // little-endian, as all there is
const request = {
  tensor: {
    dataType: "DATA_TYPE_F32",
    shape: [numbers.length],
    data: Buffer.from(numbers.buffer),
  },
  spec: { dialect: "DIALECT_ONNX", version: 11 },
  onnx: { k: { value: 2 } },
};
client.computeTopK(request, (error, answer) => {
  if (error) throw error;
  const values = Uint8Array.from(answer.values.data).buffer;
  const indices = Uint8Array.from(answer.indices.data).buffer;
  console.log(new Float32Array(values), new BigInt64Array(indices));
});
