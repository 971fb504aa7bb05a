// Sends ModelInfer requests with arbitrary bytes. Rejected requests must have
// an error message. Accepted requests must have the result of the equivalent
// topk.v1 request.

#include "server/calls/parsed_message.h"
#include "server/oip/infer_request.h"
#include "server/oip/models.h"
#include "server/oip/regions.h"
#include "tests/conformance/run_everywhere.h"
#include "tests/fuzz/input.h"
#include "tests/support/compute.h"
#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

constexpr Limits kLimits = {1 << 12, 1 << 16};

void CheckRefusal(const Status& status) {
  Require(!status.reason.empty() && !status.message.empty(),
          "a refusal has a reason and a message");
}

void Check(grpc::ByteBuffer bytes) {
  static const Engine engine({1, kLimits});
  static const Regions regions(nullptr, nullptr);
  google::protobuf::Arena arena;
  ParsedInfer raw(arena);
  const auto charge = [](Size) { return Status(); };
  if (const Status s = ParseMessage(bytes, charge, raw); !s.ok()) {
    return CheckRefusal(s);
  }
  const Result<const Model*> model =
      FindModel(raw.message.model_name(), raw.message.model_version());
  if (!model.ok()) return CheckRefusal(model.status());
  ParsedMessage<v1::TopKRequest> parsed;
  if (const Status s = ParseInfer(raw, **model, regions, parsed); !s.ok()) {
    return CheckRefusal(s);
  }
  v1::TopKRequest& whole = parsed.message;
  for (const auto& piece : parsed.data) {
    whole.mutable_tensor()->mutable_data()->append(
        reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  const Result<v1::TopKResponse> answer = Compute(engine, whole);
  if (answer.ok()) {
    Require(Comparable(*answer) == Comparable(Oracle(whole)),
            "the answer is the oracle's");
    return;
  }
  const Status& status = answer.status();
  CheckRefusal(status);
  Require(!OipField(status.field, **model, raw.message).empty(),
          "the field has a path");
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const topk::testing::QuietProtobuf quiet;
  const grpc::Slice slice(data, size);
  topk::testing::Check({&slice, 1});
  return 0;
}
