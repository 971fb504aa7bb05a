#include "client/cli/request.h"

#include <algorithm>
#include <vector>

#include "client/cli/number_flag.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "topk/request.h"

namespace topk::cli {
namespace {

Status CheckFlags(const OperatorFlags& flags, const Dialect& dialect) {
  std::string_view lacks;
  if (dialect.id == v1::DIALECT_DIRECTML) {
    if (flags.order != "value") lacks = "--order";
    if (flags.index_type.starts_with('i')) lacks = "--index-type i32 or i64";
  }
  if (dialect.id == v1::DIALECT_ONNX) {
    if (!flags.index_type.empty()) lacks = "--index-type";
    if (flags.order == "index") lacks = "--order index";
  }
  if (lacks.empty()) return {};
  return InvalidArgument("FLAG", lacks,
                         StrCat(dialect.title, " has no ", lacks));
}

}  // namespace

void AddInputFlags(CLI::App& command, CLI::Option* file, InputFlags& flags) {
  command
      .add_option("--member", flags.member,
                  "Name of the array to read from a .npz archive, without "
                  ".npy. Required if there are several arrays")
      ->needs(file);
  command.add_flag("--header", flags.has_header, "Skip the first line of text")
      ->needs(file);
}

void AddOperatorFlags(CLI::App& command, OperatorFlags& flags) {
  std::vector<std::string> dialects;
  for (const Dialect* dialect : Dialects()) {
    dialects.emplace_back(dialect->name);
  }
  command.add_option("--k", flags.k, "Number of elements to select")
      ->required()
      ->transform(Whole());
  command.add_option("--axis", flags.axis, "Dimension to select along")
      ->transform(Whole())
      ->capture_default_str();
  command.add_flag("--smallest", flags.smallest,
                   "Select the smallest elements, not the largest");
  command
      .add_option("--dialect", flags.dialect,
                  "Specification to follow, in its newest version")
      ->check(CLI::IsMember(dialects))
      ->capture_default_str();
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
                                    const v1::Tensor& tensor) {
  const Dialect* const dialect = *std::ranges::find(
      Dialects(), std::string_view(flags.dialect), &Dialect::name);
  const Elements elements(tensor.data_type(), {});
  const std::vector<int64_t> shape(tensor.shape().begin(),
                                   tensor.shape().end());
  const bool largest = !flags.smallest;
  if (Status s = CheckFlags(flags, *dialect); !s.ok()) return s;
  v1::TopKRequest request;
  if (dialect->id == v1::DIALECT_ONNX) {
    request = Request::Onnx(elements, shape, flags.k,
                            {flags.axis, largest, flags.order != "none"})
                  .message();
  } else if (dialect->id == v1::DIALECT_OPENVINO) {
    OpenVinoAttributes attributes{
        .axis = flags.axis, .largest = largest, .sort = flags.order};
    if (!flags.index_type.empty()) attributes.index_type = flags.index_type;
    request = Request::OpenVino(elements, shape, flags.k, attributes).message();
  } else {
    request = Request::DirectML(elements, shape, flags.k, {flags.axis, largest})
                  .message();
    if (flags.index_type == "u64") {
      request.mutable_directml()->mutable_output_index()->set_data_type(
          v1::DATA_TYPE_U64);
    }
  }
  request.set_request_id(flags.request_id);
  return request;
}

}  // namespace topk::cli
