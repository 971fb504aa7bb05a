// OpenVINO TopK-1, TopK-3 and TopK-11. Quotations are from the operators' pages
// in "Operation Set Specification", https://docs.openvino.ai
#include <algorithm>
#include <array>
#include <initializer_list>

#include "core/base/text.h"
#include "core/dialects/checks.h"
#include "core/dialects/dialect.h"

namespace topk {
namespace openvino {
namespace {

// The types of the tensor: "any numeric type", i.e. neither boolean nor string.
constexpr std::array<DType, 23> kTypes = {
    DType::kF16,    DType::kBF16,   DType::kF32,   DType::kF64, DType::kI8,
    DType::kI16,    DType::kI32,    DType::kI64,   DType::kU8,  DType::kU16,
    DType::kU32,    DType::kU64,    DType::kU1,    DType::kU2,  DType::kU3,
    DType::kU4,     DType::kU6,     DType::kI4,    DType::kNF4, DType::kF4E2M1,
    DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0};
// The types of the indices: "int64 or int32". The default is int32.
constexpr std::array<DType, 2> kIndexTypes = {DType::kI32, DType::kI64};
constexpr std::span<const DType> kIndexTypes1 =
    std::span<const DType>(kIndexTypes).first(1);
// The types that K may have. Version 1 of TopK allows only the first three.
constexpr std::array<DType, 14> kKTypes = {
    DType::kI8,  DType::kI32, DType::kI64, DType::kI16, DType::kU8,
    DType::kU16, DType::kU32, DType::kU64, DType::kU1,  DType::kU2,
    DType::kU3,  DType::kU4,  DType::kU6,  DType::kI4};
constexpr size_t kKTypes1 = 3;

constexpr std::array<OperatorVersion, 3> kVersions = {{
    {1, "OpenVINO TopK-1", kTypes, kIndexTypes1},
    {3, "OpenVINO TopK-3", kTypes, kIndexTypes},
    {11, "OpenVINO TopK-11", kTypes, kIndexTypes},
}};

// Checks that the value of an attribute is in `allowed`.
Status CheckValue(std::string_view attribute, const std::string& value,
                  std::initializer_list<std::string_view> allowed) {
  if (std::ranges::find(allowed, value) != allowed.end()) return {};
  std::string values;
  for (const std::string_view each : allowed) {
    values += StrCat(values.empty() ? "" : " or ", Quote(each));
  }
  return InvalidArgument(
      value.empty() ? "ATTRIBUTE_MISSING" : "ATTRIBUTE_VALUE",
      StrCat("openvino.", attribute),
      value.empty()
          ? StrCat(attribute, " is required; it must be ", values)
          : StrCat(attribute, " = ", Quote(value), " must be ", values));
}

// Checks the attribute "stable", which TopK-11 added. Like OpenVINO, rejects
// stable = true with sort = "none". Otherwise ignores the attribute, because
// results are always stable.
Status CheckStable(const v1::OpenVinoTopK& openvino,
                   const OperatorVersion& version) {
  if (!openvino.has_stable()) return {};
  if (version.version < 11) {
    return NoSuchAttribute("openvino", "stable", version, 11);
  }
  if (openvino.stable() && openvino.sort() == "none") {
    return InvalidArgument("STABLE_WITHOUT_SORT", "openvino.stable",
                           "stable = true needs sort = \"value\" or "
                           "\"index\", not \"none\"");
  }
  return {};
}

// Checks index_element_type, which is "i64" or "i32" (the default). TopK-1 does
// not document the attribute, so the indices of TopK-1 are i32. OpenVINO
// accepts the attribute for TopK-1 anyway, but topkd rejects it.
Status CheckIndexType(const v1::OpenVinoTopK& openvino,
                      const OperatorVersion& version) {
  if (!openvino.has_index_element_type()) return {};
  if (version.version == 1) {
    return NoSuchAttribute("openvino", "index_element_type", version, 3);
  }
  return CheckValue("index_element_type", openvino.index_element_type(),
                    {"i32", "i64"});
}

Result<PlanRequest> Parse(const v1::TopKRequest& request,
                          const OperatorVersion& version) {
  const v1::OpenVinoTopK& openvino = request.openvino();
  PlanRequest plan;

  const Result<DType> type = CheckTensor(request.tensor(), version);
  if (!type.ok()) return type.status();
  plan.dtype = *type;
  // The specification of "axis": "Negative value means counting dimension from
  // the end. Required: yes".
  if (!openvino.has_axis()) {
    return InvalidArgument("ATTRIBUTE_MISSING", "openvino.axis",
                           "axis is required");
  }
  plan.axis = openvino.axis();
  // The specification of "mode": "Range of values: min, max. Required: yes".
  if (Status s = CheckValue("mode", openvino.mode(), {"min", "max"}); !s.ok()) {
    return s;
  }
  plan.direction =
      openvino.mode() == "max" ? Direction::kLargest : Direction::kSmallest;
  // The specification says of the attribute "sort": "Range of values: value,
  // index, none. Required: yes". For "none", topkd also sorts by value.
  if (Status s =
          CheckValue("sort", openvino.sort(), {"value", "index", "none"});
      !s.ok()) {
    return s;
  }
  plan.order = openvino.sort() == "index" ? Order::kIndex : Order::kValue;
  if (Status s = CheckStable(openvino, version); !s.ok()) return s;
  if (Status s = CheckIndexType(openvino, version); !s.ok()) return s;
  plan.index_type =
      openvino.index_element_type() == "i64" ? DType::kI64 : DType::kI32;
  const auto k_types = std::span<const DType>(kKTypes).first(
      version.version == 1 ? kKTypes1 : kKTypes.size());
  const Result<int64_t> k =
      ReadK(openvino.k(), k_types, /*rank=*/0, "openvino.k", version.name);
  if (!k.ok()) return k.status();
  plan.k = *k;
  return plan;
}

}  // namespace
}  // namespace openvino

extern const Dialect kOpenVino = {
    v1::DIALECT_OPENVINO,       "openvino",          "OpenVINO",
    v1::TopKRequest::kOpenvino, openvino::kVersions, openvino::Parse};

}  // namespace topk
