// The models of the Open Inference Protocol: each dialect is a model, and its
// versions are the model's versions.
#pragma once

#include <span>
#include <string>

#include "core/base/status.h"
#include "core/dialects/registry.h"
#include "inference/grpc_service.pb.h"

namespace topk {

/// The names of a model's tensors. K is not listed in its metadata: tools send
/// random data to all that is.
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

/// Returns all, each model's versions together and ascending.
std::span<const Model> Models();

/// Returns a version of a model, the newest for "". NOT_FOUND if it does not
/// exist; INVALID_ARGUMENT if the version is not a number.
Result<const Model*> FindModel(const std::string& name,
                               const std::string& version);

/// Say what a model takes and gives.
void Describe(const Model& model, inference::ModelMetadataResponse& metadata);
void Describe(const Model& model, inference::ModelConfig& config);

}  // namespace topk
