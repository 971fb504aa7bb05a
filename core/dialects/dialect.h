// The interface of a dialect. Only dialects know ONNX, OpenVINO and DirectML.
// To add one, write its .proto file, a .cc file in this folder that defines a
// Dialect, its row in registry.cc and its cases in tests/cases.
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

/// A family of operators that share one attributes message.
struct Dialect {
  v1::Dialect id;
  /// As users write it, e.g. "onnx"; also the name of the attributes' field.
  std::string_view name;
  v1::TopKRequest::AttributesCase attributes;
  /// Ascending.
  std::span<const OperatorVersion> versions;
  /// Checks the dialect's own rules and returns what the request means. The
  /// dialect, the version and the attributes' presence have been checked; what
  /// MakePlan checks need not be.
  Result<PlanRequest> (*understand)(const v1::TopKRequest& request,
                                    const OperatorVersion& version);
  /// Returns K of a request with these attributes, valid or not, if it has K as
  /// a number and not as a tensor.
  std::optional<int64_t> (*k)(const v1::TopKRequest& request);
};

extern const Dialect kOnnx;
extern const Dialect kOpenVino;
extern const Dialect kDirectML;

}  // namespace topk
