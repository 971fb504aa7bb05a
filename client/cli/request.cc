#include "client/cli/request.h"

#include <algorithm>

#include "core/base/text.h"

namespace topk::cli {
namespace {

Status NoSuchFlag(std::string_view flag, std::string_view dialect) {
  return InvalidArgument("FLAG", flag, StrCat(dialect, " has no ", flag));
}

Status SetOnnx(const OperatorFlags& flags, v1::TopKRequest& request) {
  if (!flags.index_type.empty()) return NoSuchFlag("--index-type", "ONNX");
  if (flags.order == "index") return NoSuchFlag("--order index", "ONNX");
  v1::OnnxTopK& onnx = *request.mutable_onnx();
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(flags.version.value_or(24));
  if (flags.axis) onnx.set_axis(*flags.axis);
  onnx.mutable_k()->set_value(flags.k);
  if (flags.smallest) onnx.set_largest(0);
  if (flags.order == "none") onnx.set_sorted(0);
  return {};
}

Status SetOpenVino(const OperatorFlags& flags, v1::TopKRequest& request) {
  v1::OpenVinoTopK& openvino = *request.mutable_openvino();
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(flags.version.value_or(11));
  openvino.set_axis(flags.axis.value_or(-1));
  openvino.mutable_k()->set_value(flags.k);
  openvino.set_mode(flags.smallest ? "min" : "max");
  openvino.set_sort(flags.order);
  if (!flags.index_type.empty()) {
    openvino.set_index_element_type(flags.index_type);
  }
  return {};
}

Status SetDirectML(const OperatorFlags& flags, v1::TopKRequest& request) {
  if (flags.order != "value") return NoSuchFlag("--order", "DirectML");
  v1::DirectMLTopK& directml = *request.mutable_directml();
  const int32_t version = flags.version.value_or(1);
  request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
  request.mutable_spec()->set_version(version);
  // DirectML does not count from the back: the last axis by its number.
  directml.set_axis(flags.axis.value_or(request.tensor().shape_size() - 1));
  directml.set_k(flags.k);
  if (flags.smallest) {
    directml.set_axis_direction(v1::AXIS_DIRECTION_INCREASING);
  } else if (version != 0) {
    directml.set_axis_direction(v1::AXIS_DIRECTION_DECREASING);
  }
  directml.set_strict(flags.strict);
  if (flags.index_type == "u64") {
    directml.mutable_output_index()->set_data_type(v1::DATA_TYPE_U64);
  } else if (!flags.index_type.empty() && flags.index_type != "u32") {
    return InvalidArgument("FLAG", "--index-type",
                           "DirectML's indices are u32 or u64");
  }
  if (!flags.feature_level.empty()) {
    v1::FeatureLevel level;
    if (!v1::FeatureLevel_Parse("FEATURE_LEVEL_" + flags.feature_level,
                                &level)) {
      return InvalidArgument(
          "FLAG", "--feature-level",
          StrCat(flags.feature_level, " is not a feature level, e.g. 5_0"));
    }
    directml.set_feature_level(level);
  }
  return {};
}

}  // namespace

void AddOperatorFlags(CLI::App& command, OperatorFlags& flags) {
  command.add_option("--k", flags.k, "Number of elements to select")
      ->required();
  command.add_option("--axis", flags.axis,
                     "Dimension to select along; default: the last");
  command.add_flag("--smallest", flags.smallest,
                   "Select the smallest elements, not the largest");
  command
      .add_option("--dialect", flags.dialect, "Specification of the operator")
      ->check(CLI::IsMember({"onnx", "openvino", "directml"}))
      ->capture_default_str();
  command.add_option("--version", flags.version,
                     "Operator version of the dialect; default: the newest");
  command.add_option("--order", flags.order, "Order of the selected elements")
      ->check(CLI::IsMember({"value", "index", "none"}))
      ->capture_default_str();
  command
      .add_option("--index-type", flags.index_type,
                  "Type of the indices: OpenVINO i32 or i64, DirectML "
                  "u32 or u64")
      ->check(CLI::IsMember({"i32", "i64", "u32", "u64"}));
  command.add_option(
      "--feature-level", flags.feature_level,
      "DirectML: feature level, 1_0 .. 6_4; default: the newest");
  command.add_flag("--strict", flags.strict,
                   "DirectML: reject k == size, as its documentation does");
  command.add_option("--request-id", flags.request_id,
                     "ID that the server returns and logs");
}

Result<v1::TopKRequest> MakeRequest(const OperatorFlags& flags,
                                    v1::DataType data_type,
                                    const std::vector<int64_t>& shape) {
  v1::TopKRequest request;
  request.set_request_id(flags.request_id);
  request.mutable_tensor()->set_data_type(data_type);
  request.mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  if (flags.dialect != "directml" &&
      (flags.strict || !flags.feature_level.empty())) {
    return NoSuchFlag(flags.strict ? "--strict" : "--feature-level",
                      flags.dialect);
  }
  const Status status = flags.dialect == "onnx" ? SetOnnx(flags, request)
                        : flags.dialect == "openvino"
                            ? SetOpenVino(flags, request)
                            : SetDirectML(flags, request);
  if (!status.ok()) return status;
  return request;
}

}  // namespace topk::cli
