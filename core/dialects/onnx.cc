// ONNX TopK, opsets 1, 10, 11 and 24. Quotations are from the operator's page,
// https://onnx.ai/onnx/operators/onnx__TopK.html
#include <array>

#include "core/base/text.h"
#include "core/dialects/checks.h"
#include "core/dialects/dialect.h"

namespace topk {
namespace onnx {
namespace {

// The input types. Opsets 1 and 10 "constrain input and output types to float
// tensors". Opset 24 adds bfloat16 to the types of opset 11.
constexpr std::array<DType, 12> kTypes = {
    DType::kF16, DType::kF32, DType::kF64, DType::kI8,
    DType::kI16, DType::kI32, DType::kI64, DType::kU8,
    DType::kU16, DType::kU32, DType::kU64, DType::kBF16};
constexpr std::span<const DType> kTypes24 = kTypes;
constexpr std::span<const DType> kTypes11 = kTypes24.first(11);
constexpr std::span<const DType> kTypes1 = kTypes24.first(3);
// The type of the indices and of K. ONNX says "constrain index tensor to
// int64", and describes K as "a 1-D tensor containing a single positive value".
constexpr std::array<DType, 1> kIndexTypes = {DType::kI64};

constexpr std::array<OperatorVersion, 4> kVersions = {{
    {1, "ONNX TopK-1", kTypes1, kIndexTypes},
    {10, "ONNX TopK-10", kTypes1, kIndexTypes},
    {11, "ONNX TopK-11", kTypes11, kIndexTypes},
    {24, "ONNX TopK-24", kTypes24, kIndexTypes},
}};

// Reads the attribute "largest" or "sorted", which opset 11 added. The default
// is 1, and only 0 and 1 are defined.
Result<bool> ReadFlag(bool has, int64_t value, std::string_view name,
                      const OperatorVersion& version) {
  if (!has) return true;
  if (version.version < 11) {
    return NoSuchAttribute("onnx", name, version, 11);
  }
  if (value != 0 && value != 1) {
    return InvalidArgument("ATTRIBUTE_NOT_BOOLEAN", StrCat("onnx.", name),
                           StrCat(name, " = ", value, " must be 0 or 1"));
  }
  return value == 1;
}

Result<PlanRequest> Parse(const v1::TopKRequest& request,
                          const OperatorVersion& version) {
  const v1::OnnxTopK& onnx = request.onnx();
  PlanRequest plan;

  const Result<DType> type = CheckTensor(request.tensor(), version);
  if (!type.ok()) return type.status();
  plan.dtype = *type;
  plan.index_type = DType::kI64;
  // The default axis is -1. Opset 11 says that a "negative value means counting
  // dimensions from the back". Opsets 1 and 10 do not mention negative values.
  // topkd accepts them in all opsets, because the default is negative.
  plan.axis = onnx.has_axis() ? onnx.axis() : -1;

  // In TopK-1, k is a required attribute. From opset 10 on, k is an input.
  if (version.version == 1 && onnx.k().has_tensor()) {
    return InvalidArgument("K_IS_ATTRIBUTE", "onnx.k.tensor",
                           "k is an attribute of ONNX TopK-1, not an input: "
                           "send a number instead of a tensor");
  }
  const Result<int64_t> k =
      ReadK(onnx.k(), kIndexTypes, /*rank=*/1, "onnx.k", version.name);
  if (!k.ok()) return k.status();
  plan.k = *k;

  const Result<bool> largest =
      ReadFlag(onnx.has_largest(), onnx.largest(), "largest", version);
  if (!largest.ok()) return largest.status();
  plan.direction = *largest ? Direction::kLargest : Direction::kSmallest;
  // With sorted = 0, the "order of returned Values and Indices are undefined".
  // topkd returns the same order as with sorted = 1.
  const Result<bool> sorted =
      ReadFlag(onnx.has_sorted(), onnx.sorted(), "sorted", version);
  if (!sorted.ok()) return sorted.status();
  return plan;
}

}  // namespace
}  // namespace onnx

extern const Dialect kOnnx = {v1::DIALECT_ONNX, "onnx",
                              "ONNX",           v1::TopKRequest::kOnnx,
                              onnx::kVersions,  onnx::Parse};

}  // namespace topk
