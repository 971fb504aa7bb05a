// Runs any request. An accepted request must have the oracle's result. An error
// must have a field, a reason and a message.

#include "core/engine.h"
#include "tests/conformance/run_everywhere.h"
#include "tests/fuzz/input.h"
#include "tests/support/compute.h"
#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

// Small, because with a stride of 0, a few bytes can become many elements.
constexpr Limits kLimits = {1 << 12, 1 << 16};

void Check(const v1::TopKRequest& request) {
  static const Engine engine({1, kLimits});
  const Result<v1::TopKResponse> answer = Compute(engine, request);
  if (!answer.ok()) {
    const Status& status = answer.status();
    Require(!status.field.empty() && !status.reason.empty() &&
                !status.message.empty(),
            "an error has a field, a reason and a message");
    return;
  }
  Require(Comparable(*answer) == Comparable(Oracle(request)),
          "the answer is the oracle's");
  const auto data_bytes = static_cast<int64_t>(request.tensor().data().size());
  Require(engine.Prepare(request, data_bytes, 1)->cost.output_bytes ==
              static_cast<int64_t>(answer->values().data().size() +
                                   answer->indices().data().size()),
          "the cost is that of the answer");
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const topk::testing::QuietProtobuf quiet;
  topk::v1::TopKRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  topk::testing::Check(request);
  return 0;
}
