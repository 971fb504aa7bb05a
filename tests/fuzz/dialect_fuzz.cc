// Runs any request with the operators of one dialect, selected by the program's
// name. An accepted request must have a valid plan and the oracle's result. An
// error must have a field, a reason and a message.

#include <cerrno>
#include <string_view>

#include "core/dialects/registry.h"
#include "core/engine.h"
#include "tests/conformance/run_everywhere.h"
#include "tests/fuzz/input.h"
#include "tests/support/compute.h"
#include "tests/support/oracle.h"
#include "tests/support/quiet_protobuf.h"

namespace topk::testing {
namespace {

// Small, because with a stride of 0, a few bytes can become many elements.
constexpr Limits kLimits = {1 << 12, 1 << 16};

// Checks that each slice's last element is within the tensor's bytes.
void CheckLayout(const Plan& plan, const Layout& layout, int64_t length,
                 int64_t width) {
  Require(layout.strides.size() == plan.shape.size(),
          "there is one stride per dimension");
  Require(layout.bytes >= 0, "length");
  const auto axis = static_cast<size_t>(plan.axis);
  for (int64_t slice = 0; slice < plan.slices(); ++slice) {
    const int64_t first = SliceOffset(plan, layout, slice);
    const int64_t last = first + (length - 1) * layout.strides[axis];
    Require(first >= 0 && (last + 1) * width <= layout.bytes,
            "every element is within its tensor");
  }
}

void CheckPlan(const Plan& plan) {
  Require(plan.axis >= 0 && plan.axis < static_cast<int>(plan.shape.size()),
          "the axis is a dimension");
  Require(plan.n == plan.shape[static_cast<size_t>(plan.axis)], "n");
  Require(plan.k >= 1 && plan.k <= plan.n, "1 <= k <= n");
  int64_t elements = 1;
  for (const int64_t size : plan.shape) elements *= size;
  Require(plan.slices() * plan.n == elements, "[outer, n, inner]");
  Require(elements <= kLimits.max_elements, "the limit of elements");
  Require((plan.wants_values ? plan.values.bytes : 0) +
                  (plan.wants_indices ? plan.indices.bytes : 0) <=
              kLimits.max_output_bytes,
          "the limit of the answer");
  Require(plan.index_offset >= 0 &&
              plan.n - 1 <= MaxIndex(plan.index_type) - plan.index_offset,
          "every index fits its type");
  const int64_t width = InfoOf(plan.dtype).bytes;
  CheckLayout(plan, plan.input, plan.n, width);
  Require(plan.data_bytes >= plan.input.bytes &&
              plan.padded_data_bytes >= plan.data_bytes &&
              plan.padded_data_bytes - plan.data_bytes < 4,
          "padding");
  if (plan.wants_values) CheckLayout(plan, plan.values, plan.k, width);
  if (plan.wants_indices) {
    CheckLayout(plan, plan.indices, plan.k, InfoOf(plan.index_type).bytes);
  }
}

void Check(const v1::TopKRequest& request) {
  static const Engine engine({1, kLimits});
  if (const Result<Plan> plan = Lower(request, kLimits); plan.ok()) {
    CheckPlan(*plan);
  }
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

v1::Dialect DialectOfProgram() {
  const std::string_view name = program_invocation_short_name;
  return name.starts_with("onnx")       ? v1::DIALECT_ONNX
         : name.starts_with("openvino") ? v1::DIALECT_OPENVINO
                                        : v1::DIALECT_DIRECTML;
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const topk::testing::QuietProtobuf quiet;
  topk::v1::TopKRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  // Other valid dialects have their own targets, so test this target's.
  if (topk::v1::Dialect_IsValid(request.spec().dialect()) &&
      request.has_spec()) {
    static const topk::v1::Dialect dialect = topk::testing::DialectOfProgram();
    request.mutable_spec()->set_dialect(dialect);
  }
  topk::testing::Check(request);
  return 0;
}
