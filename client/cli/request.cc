#include "client/cli/request.h"

#include <algorithm>
#include <limits>
#include <string>

#include "client/cli/number_flag.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"

namespace topk::cli {
namespace {

Status CheckFlags(const OperatorFlags& flags, const Dialect& dialect) {
  std::string_view lacks;
  if (dialect.id == v1::DIALECT_DIRECTML && flags.order != "value") {
    lacks = "--order";
  }
  if (dialect.id == v1::DIALECT_ONNX) {
    if (!flags.index_type.empty()) lacks = "--index-type";
    if (flags.order == "index") lacks = "--order index";
  }
  if (lacks.empty()) return {};
  return InvalidArgument("FLAG", lacks,
                         StrCat(dialect.title, " has no ", lacks));
}

void SetOnnx(const OperatorFlags& flags, v1::OnnxTopK& onnx) {
  if (flags.axis) onnx.set_axis(*flags.axis);
  onnx.mutable_k()->set_value(flags.k);
  if (flags.smallest) onnx.set_largest(0);
  if (flags.order == "none") onnx.set_sorted(0);
}

void SetOpenVino(const OperatorFlags& flags, v1::OpenVinoTopK& openvino) {
  openvino.set_axis(flags.axis.value_or(-1));
  openvino.mutable_k()->set_value(flags.k);
  openvino.set_mode(flags.smallest ? "min" : "max");
  openvino.set_sort(flags.order);
  if (!flags.index_type.empty()) {
    openvino.set_index_element_type(flags.index_type);
  }
}

Status SetDirectML(const OperatorFlags& flags, v1::TopKRequest& request) {
  constexpr int kTopK = 0;  // version 0 has no axis_direction
  v1::DirectMLTopK& directml = *request.mutable_directml();
  // Use the last axis by default. DirectML requires a number >= 0.
  directml.set_axis(flags.axis.value_or(request.tensor().shape_size() - 1));
  directml.set_k(flags.k);
  if (flags.smallest) {
    directml.set_axis_direction(v1::AXIS_DIRECTION_INCREASING);
  } else if (request.spec().version() != kTopK) {
    directml.set_axis_direction(v1::AXIS_DIRECTION_DECREASING);
  }
  if (flags.index_type == "u64") {
    directml.mutable_output_index()->set_data_type(v1::DATA_TYPE_U64);
  } else if (!flags.index_type.empty() && flags.index_type != "u32") {
    return InvalidArgument("FLAG", "--index-type",
                           "--index-type must be u32 or u64 for DirectML");
  }
  return {};
}

}  // namespace

void AddOperatorFlags(CLI::App& command, OperatorFlags& flags) {
  std::vector<std::string> dialects;
  for (const Dialect* dialect : Dialects()) {
    dialects.emplace_back(dialect->name);
  }
  command.add_option("--k", flags.k, "Number of elements to select")
      ->required()
      ->transform(Whole());
  command
      .add_option("--axis", flags.axis,
                  "Dimension to select along; default: the last")
      ->transform(Whole());
  command.add_flag("--smallest", flags.smallest,
                   "Select the smallest elements, not the largest");
  command.add_option("--dialect", flags.dialect, "Specification to follow")
      ->check(CLI::IsMember(dialects))
      ->capture_default_str();
  command
      .add_option("--version", flags.version,
                  "Version of the operator in --dialect; default: the newest")
      ->transform(Whole(std::numeric_limits<int32_t>::min(),
                        std::numeric_limits<int32_t>::max()));
  command.add_option("--order", flags.order, "Order of the selected elements")
      ->check(CLI::IsMember({"value", "index", "none"}))
      ->capture_default_str();
  command
      .add_option("--index-type", flags.index_type,
                  "Type of the indices: OpenVINO i32 or i64, DirectML u32 or "
                  "u64")
      ->check(CLI::IsMember({"i32", "i64", "u32", "u64"}));
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
  const Dialect* const dialect = *std::ranges::find(
      Dialects(), std::string_view(flags.dialect), &Dialect::name);
  request.mutable_spec()->set_dialect(dialect->id);
  request.mutable_spec()->set_version(
      flags.version.value_or(dialect->versions.back().version));
  if (Status s = CheckFlags(flags, *dialect); !s.ok()) return s;
  if (dialect->id == v1::DIALECT_ONNX) {
    SetOnnx(flags, *request.mutable_onnx());
  } else if (dialect->id == v1::DIALECT_OPENVINO) {
    SetOpenVino(flags, *request.mutable_openvino());
  } else if (Status s = SetDirectML(flags, request); !s.ok()) {
    return s;
  }
  return request;
}

}  // namespace topk::cli
