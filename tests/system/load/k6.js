// ComputeTopK under load by k6, which fails if the thresholds do not hold.
//
// usage: k6 run tests/system/load/k6.js
//
// Variables: TARGET, RATE (calls per second), DURATION, REQUEST (a JSON file)
import encoding from "k6/encoding";
import { check } from "k6";
import grpc from "k6/net/grpc";

const target = __ENV.TARGET || "localhost:50051";
const file = __ENV.REQUEST || "../../../build/requests/small.json";
const request = JSON.parse(open(file));
const client = new grpc.Client();
client.load(["../../../proto"], "topk/v1/topk.proto");

export const options = {
  scenarios: {
    // Calls come by a schedule, whether or not answers do.
    open: {
      executor: "constant-arrival-rate",
      rate: Number(__ENV.RATE || 200),
      timeUnit: "1s",
      duration: __ENV.DURATION || "10s",
      preAllocatedVUs: 20,
      maxVUs: 100,
    },
  },
  thresholds: {
    checks: ["rate==1"],
    dropped_iterations: ["count==0"],
    grpc_req_duration: ["p(99)<100"], // milliseconds
  },
};

let connected = false;

export default function () {
  if (!connected) {
    client.connect(target, { plaintext: true });
    connected = true;
  }
  const answer = client.invoke("topk.v1.TopKService/ComputeTopK", request);
  check(answer, {
    "status is OK": (a) => a.status === grpc.StatusOK,
    "it has k values of each row": (a) => values(a) === 8 * 10,
  });
}

// How many f32 values an answer has.
function values(answer) {
  if (answer.status !== grpc.StatusOK) return 0;
  const data = answer.message.values.data;
  return encoding.b64decode(data, "std").byteLength / 4;
}
