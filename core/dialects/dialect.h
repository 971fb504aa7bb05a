// The interface of a dialect. Only dialects know about ONNX, OpenVINO and
// DirectML. To add a dialect, see ARCHITECTURE.md.
#pragma once

#include <span>
#include <string_view>

#include "core/base/dtype.h"
#include "core/plan/plan.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// A version of an operator, as reported by GetCapabilities.
struct OperatorVersion {
  int version;
  /// The name in the operator's specification, e.g. "ONNX TopK-11".
  std::string_view name;
  std::span<const DType> data_types;
  /// The types of the indices. The first type is the default.
  std::span<const DType> index_types;
};

/// A family of operators that share an attributes message.
struct Dialect {
  v1::Dialect id;
  /// The user-visible name, e.g. "onnx". Requests have a field with this name.
  std::string_view name;
  /// The official spelling of the name, e.g. "ONNX".
  std::string_view title;
  v1::TopKRequest::AttributesCase attributes;
  /// In ascending order.
  std::span<const OperatorVersion> versions;
  /// Checks the rules of this dialect that MakePlan() does not check, and
  /// translates the request. REQUIRES: the dialect and the version are valid,
  /// and the attributes are set.
  Result<PlanRequest> (*parse)(const v1::TopKRequest& request,
                               const OperatorVersion& version);
};

}  // namespace topk
