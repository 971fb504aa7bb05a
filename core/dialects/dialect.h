// The interface of a dialect. Only dialects know ONNX, OpenVINO and DirectML.
// ARCHITECTURE.md has the recipe for another one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
  /// caller has checked the dialect, the version and that the attributes are
  /// set, and MakePlan() checks the rest.
  Result<PlanRequest> (*parse)(const v1::TopKRequest& request,
                               const OperatorVersion& version);
  /// Reads the outline of a request with these attributes, valid or not.
  Outline (*peek)(const v1::TopKRequest& request);
};

}  // namespace topk
