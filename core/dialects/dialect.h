// The interface of a dialect. Only dialects know ONNX, OpenVINO and DirectML.
// ARCHITECTURE.md has the recipe for another one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/plan/plan.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// One version of an operator: what GetCapabilities says of it.
struct OperatorVersion {
  int version;
  /// The operator's own name, e.g. "ONNX TopK-11".
  std::string_view name;
  std::span<const DType> data_types;
  /// The default first.
  std::span<const DType> index_types;
};

/// The attributes on which the shape of a response depends, of a request that
/// need not be valid.
struct Outline {
  int64_t axis = -1;
  /// K, if it was sent as a number.
  std::optional<int64_t> k;
  /// K, if it was sent as a tensor.
  const v1::Tensor* k_tensor = nullptr;
  DType index_type = DType::kI64;
  /// Descriptions of the outputs; null for packed ones.
  const v1::TensorDesc* values = nullptr;
  const v1::TensorDesc* indices = nullptr;
};

/// The operator that a user of the command chooses, as flags name it: --k,
/// --axis, --smallest, --version, --order, --index-type.
struct OperatorFlags {
  int64_t k = 0;
  std::optional<int64_t> axis;
  bool smallest = false;
  std::string dialect = "onnx";
  std::optional<int32_t> version;
  std::string order = "value";
  std::string index_type;
  /// The flags of one dialect that were given, by name.
  std::map<std::string, std::string, std::less<>> own;
  std::string request_id;
};

/// A flag of the command that only one dialect has.
struct DialectFlag {
  /// E.g. "--strict".
  std::string_view name;
  std::string_view help;
  /// Whether it has a value.
  bool has_value;
};

/// A family of operators that share one attributes message.
struct Dialect {
  v1::Dialect id;
  /// As users write it, e.g. "onnx"; also the name of the attributes' field.
  std::string_view name;
  /// As its publisher writes it, e.g. "ONNX".
  std::string_view title;
  v1::TopKRequest::AttributesCase attributes;
  /// Ascending.
  std::span<const OperatorVersion> versions;
  /// Checks the dialect's own rules and returns what the request means. The
  /// dialect, the version and the attributes' presence have been checked; what
  /// MakePlan checks need not be.
  Result<PlanRequest> (*understand)(const v1::TopKRequest& request,
                                    const OperatorVersion& version);
  /// Reads a request with these attributes, valid or not.
  Outline (*outline)(const v1::TopKRequest& request);
  /// Sets the attributes of a request whose tensor has a shape. Only flags that
  /// were given are set, so that the operator's own defaults and rules apply.
  /// INVALID_ARGUMENT with the flag as its field if the dialect lacks it.
  Status (*fill)(const OperatorFlags& flags, v1::TopKRequest& request);
  /// The flags that only this dialect has.
  std::span<const DialectFlag> flags = {};
};

}  // namespace topk
