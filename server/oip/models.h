// The models that Open Inference Protocol clients see. Each dialect is a model,
// and the versions of the dialect are the versions of the model.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "inference/grpc_service.pb.h"
#include "topk/status.h"

namespace topk {

/// The names of a model's tensors. The metadata does not list K, because tools
/// send random data to every listed input.
inline constexpr char kInputX[] = "X";
inline constexpr char kInputK[] = "K";
inline constexpr char kOutputValues[] = "values";
inline constexpr char kOutputIndices[] = "indices";

/// One version of a model.
struct Model {
  const Dialect* dialect;
  const OperatorVersion* version;
  /// E.g. "onnx_topk".
  std::string name;
};

/// Returns the versions of all models, grouped by model and sorted by version.
std::span<const Model> Models();

/// Returns a version of a model, or the newest version if `version` is empty.
/// Returns NOT_FOUND if there is no such model or version, and INVALID_ARGUMENT
/// if `version` is not a number.
Result<const Model*> FindModel(const std::string& name,
                               const std::string& version);

/// Describes the inputs, outputs and versions of a model.
void Describe(const Model& model, inference::ModelMetadataResponse& metadata);
void Describe(const Model& model, inference::ModelConfigResponse& response);

/// Like Quote(), but with single quotes as in Triton, because clients search
/// error messages for quoted names.
inline std::string SingleQuote(std::string_view text) {
  std::string quoted = Quote(text);
  quoted.front() = quoted.back() = '\'';
  return quoted;
}

}  // namespace topk
