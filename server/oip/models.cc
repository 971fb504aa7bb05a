#include "server/oip/models.h"

#include <optional>
#include <vector>

#include "core/base/number.h"
#include "server/oip/data_types.h"

namespace topk {
namespace {

constexpr char kPlatform[] = "topk";
// Model metadata can name only one type, although models accept several.
constexpr v1::DataType kListedType = v1::DATA_TYPE_F32;
constexpr int64_t kAnyDimensions = -1;

std::vector<Model> MakeModels() {
  std::vector<Model> models;
  for (const Dialect* dialect : Dialects()) {
    for (const OperatorVersion& version : dialect->versions) {
      models.push_back({dialect, &version, StrCat(dialect->name, "_topk")});
    }
  }
  return models;
}

const OipType& IndexType(const Model& model) {
  return FindOipType(static_cast<int>(model.version->index_types.front()));
}

void AddTensor(const char* name, const OipType& type,
               inference::ModelMetadataResponse::TensorMetadata& tensor) {
  tensor.set_name(name);
  tensor.set_datatype(std::string(type.name));
  tensor.add_shape(kAnyDimensions);
}

template <class Tensor>
void AddConfig(const char* name, const OipType& type, Tensor& tensor) {
  tensor.set_name(name);
  tensor.set_data_type(type.config);
  tensor.add_dims(kAnyDimensions);
}

}  // namespace

std::span<const Model> Models() {
  static const std::vector<Model> models = MakeModels();
  return models;
}

Result<const Model*> FindModel(const std::string& name,
                               const std::string& version) {
  const std::optional<int> number = ParseNumber<int>(version);
  if (!version.empty() && !number) {
    return InvalidArgument(
        "MODEL_VERSION", "model_version",
        StrCat("failed to get model version from specified version string ",
               SingleQuote(version), ", version should be an integral value"));
  }
  const Model* newest = nullptr;
  for (const Model& model : Models()) {
    if (model.name != name) continue;
    if (!version.empty() && model.version->version == number) return &model;
    newest = &model;
  }
  if (newest != nullptr && version.empty()) return newest;
  // Use Triton's wording, because clients search error messages for it.
  const std::string which =
      newest == nullptr ? "" : StrCat(" version ", version);
  return Status{Code::kNotFound, "MODEL_NOT_FOUND",
                newest == nullptr ? "model_name" : "model_version",
                StrCat("Request for unknown model: ", SingleQuote(name), which,
                       " is not found")};
}

void Describe(const Model& model, inference::ModelMetadataResponse& metadata) {
  metadata.set_name(model.name);
  for (const OperatorVersion& version : model.dialect->versions) {
    metadata.add_versions(StrCat(version.version));
  }
  metadata.set_platform(kPlatform);
  AddTensor(kInputX, FindOipType(kListedType), *metadata.add_inputs());
  AddTensor(kOutputValues, FindOipType(kListedType), *metadata.add_outputs());
  AddTensor(kOutputIndices, IndexType(model), *metadata.add_outputs());
  std::string types;
  for (const DType type : model.version->data_types) {
    const OipType& row = FindOipType(static_cast<int>(type));
    if (row.name.empty()) continue;  // not in the protocol
    types += StrCat(types.empty() ? "" : " ", row.name);
  }
  (*metadata.mutable_properties())["datatypes"] = types;
}

void Describe(const Model& model, inference::ModelConfigResponse& response) {
  inference::ModelConfig& config = *response.mutable_config();
  config.set_name(model.name);
  config.set_platform(kPlatform);
  config.set_backend(kPlatform);
  AddConfig(kInputX, FindOipType(kListedType), *config.add_input());
  AddConfig(kOutputValues, FindOipType(kListedType), *config.add_output());
  AddConfig(kOutputIndices, IndexType(model), *config.add_output());
}

}  // namespace topk
