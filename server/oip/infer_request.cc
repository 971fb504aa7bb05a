#include "server/oip/infer_request.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/text.h"
#include "server/oip/data_types.h"
#include "server/oip/parameters.h"

namespace topk {
namespace {

using inference::ModelInferRequest;
using Input = ModelInferRequest::InferInputTensor;
using RequestedOutput = ModelInferRequest::InferRequestedOutputTensor;
using Parameters =
    google::protobuf::Map<std::string, inference::InferParameter>;

constexpr char kRegion[] = "shared_memory_region";
constexpr char kOffset[] = "shared_memory_offset";
constexpr char kByteSize[] = "shared_memory_byte_size";

// Formats a tensor's name as Triton does, e.g. "'X' for model 'onnx_topk'".
std::string NameWithModel(const std::string& name,
                          const ModelInferRequest& request) {
  return StrCat(SingleQuote(name), " for model ",
                SingleQuote(request.model_name()));
}

Status UnknownTensor(std::string_view kind, const std::string& name,
                     const ModelInferRequest& request) {
  return InvalidArgument(
      "UNKNOWN_TENSOR", StrCat(kind, "s"),
      StrCat("unexpected inference ", kind, " ", NameWithModel(name, request)));
}

Result<MemoryRegion> FindRegion(const Parameters& parameters,
                                const Regions& regions) {
  const Result<std::string> name = ReadText(kRegion, parameters.at(kRegion));
  if (!name.ok()) return name.status();
  const Result<int64_t> offset =
      parameters.contains(kOffset)
          ? ReadInteger(kOffset, parameters.at(kOffset))
          : Result<int64_t>(0);
  if (!offset.ok()) return offset.status();
  if (!parameters.contains(kByteSize)) {
    return InvalidArgument("SHARED_MEMORY_SIZE", kByteSize,
                           StrCat(kByteSize, " is required with ", kRegion));
  }
  const Result<int64_t> bytes =
      ReadInteger(kByteSize, parameters.at(kByteSize));
  if (!bytes.ok()) return bytes.status();
  return regions.Find(*name, *offset, *bytes);
}

Status SetTypeAndShape(const Input& input, v1::Tensor& tensor) {
  const OipType& type = FindOipType(input.datatype());
  if (type.name.empty()) {
    return InvalidArgument(
        "DATATYPE", "inputs.datatype",
        StrCat("datatype ", Quote(input.datatype()), " of input ",
               SingleQuote(input.name()), " is not supported"));
  }
  tensor.set_data_type(type.type);
  *tensor.mutable_shape() = input.shape();
  return {};
}

// Sets `data` to the typed contents of an input. Returns INVALID_ARGUMENT if
// the contents are in the field of another type, the type has no field (FP16
// and BF16), or a number is out of range for the type. REQUIRES: `data` is
// empty.
Status ReadTypedContents(const Input& input, const ModelInferRequest& request,
                         std::string& data) {
  const inference::InferTensorContents& contents = input.contents();
  const std::string& type = input.datatype();
  const auto append = [&]<class Element>(const auto& numbers,
                                         Element) -> Status {
    data.reserve(static_cast<size_t>(numbers.size()) * sizeof(Element));
    for (const auto number : numbers) {
      const auto element = static_cast<Element>(number);
      if constexpr (sizeof(Element) < sizeof(number)) {
        if (element != number) {
          return InvalidArgument("CONTENTS_RANGE", "inputs.contents",
                                 StrCat(number, " is not a valid ", type));
        }
      }
      data.append(reinterpret_cast<const char*>(&element), sizeof(element));
    }
    return {};
  };
  Status status;
  if (type == "FP32") status = append(contents.fp32_contents(), float{});
  if (type == "FP64") status = append(contents.fp64_contents(), double{});
  if (type == "INT8") status = append(contents.int_contents(), int8_t{});
  if (type == "INT16") status = append(contents.int_contents(), int16_t{});
  if (type == "INT32") status = append(contents.int_contents(), int32_t{});
  if (type == "INT64") status = append(contents.int64_contents(), int64_t{});
  if (type == "UINT8") status = append(contents.uint_contents(), uint8_t{});
  if (type == "UINT16") status = append(contents.uint_contents(), uint16_t{});
  if (type == "UINT32") status = append(contents.uint_contents(), uint32_t{});
  if (type == "UINT64") status = append(contents.uint64_contents(), uint64_t{});
  if (!status.ok()) return status;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  contents.GetReflection()->ListFields(contents, &fields);
  if (fields.size() == (data.empty() ? 0U : 1U)) return {};
  return InvalidArgument(
      "CONTENTS_TYPE", "inputs.contents",
      StrCat("unexpected explicit tensor data for input tensor ",
             NameWithModel(input.name(), request), ": datatype ", Quote(type),
             " must be sent in raw_input_contents or, if there is one, in its "
             "own field of InferTensorContents"));
}

// Takes the data of an input. If the request has raw contents, sets `raw` to
// the contents at `next` and increments `next`. Otherwise, sets `typed` to the
// typed contents. Call at most once for each of the inputs X and K.
Status TakeData(const Input& input, const ParsedInfer& from, size_t& next,
                std::string& typed,
                std::vector<std::span<const std::byte>>& raw) {
  if (from.content_count == 0) {
    return ReadTypedContents(input, from.message, typed);
  }
  if (next == from.content_count) {
    return InvalidArgument(
        "CONTENTS_MISSING", "raw_input_contents",
        StrCat("unable to find data for input tensor ",
               NameWithModel(input.name(), from.message), " in request."));
  }
  raw = from.contents[next++];
  return {};
}

// Copies the input K to the attribute k, whose type is KInput or int64.
Status TakeK(const Input& input, const ParsedInfer& from, size_t& next,
             google::protobuf::Message& attributes) {
  constexpr size_t kMaxBytes = 64;  // longer than any K
  if (input.parameters().contains(kRegion)) {
    return Unimplemented("K_IN_SHARED_MEMORY", "inputs",
                         "K must be in the request, not in shared memory");
  }
  v1::KInput k;
  v1::Tensor& tensor = *k.mutable_tensor();
  std::string& data = *tensor.mutable_data();
  std::vector<std::span<const std::byte>> pieces;
  if (Status s = TakeData(input, from, next, data, pieces); !s.ok()) return s;
  if (Status s = SetTypeAndShape(input, tensor); !s.ok()) return s;
  size_t bytes = data.size();
  for (const auto& piece : pieces) bytes += piece.size();
  if (bytes > kMaxBytes) {
    return InvalidArgument(
        "DATA_LENGTH", "inputs",
        StrCat("K has ", bytes, " bytes of data; it must be one integer"));
  }
  for (const auto& piece : pieces) {
    data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  const auto* field = attributes.GetDescriptor()->FindFieldByName("k");
  const auto* reflection = attributes.GetReflection();
  if (reflection->HasField(attributes, field)) {
    return InvalidArgument("K_TWICE", "parameters[\"k\"]",
                           "k is set twice: as a parameter and as the input K");
  }
  if (field->message_type() != nullptr) {
    reflection->MutableMessage(&attributes, field)->CopyFrom(k);
    return {};
  }
  int64_t number = 0;
  const auto is_one = [](int64_t size) { return size == 1; };
  if (tensor.data_type() != v1::DATA_TYPE_I64 || bytes != sizeof(number) ||
      !std::ranges::all_of(tensor.shape(), is_one)) {
    return InvalidArgument(
        "K_TYPE", "inputs",
        StrCat("K must be one INT64 element, with sizes of 1; it has the "
               "datatype ",
               Quote(input.datatype()), " and ", bytes, " bytes of data"));
  }
  std::memcpy(&number, data.data(), sizeof(number));
  reflection->SetInt64(&attributes, field, number);
  return {};
}

Status TakeX(const Input& input, const ParsedInfer& from,
             const Regions& regions, size_t& next,
             ParsedMessage<v1::TopKRequest>& to) {
  v1::Tensor& tensor = *to.message.mutable_tensor();
  if (Status s = SetTypeAndShape(input, tensor); !s.ok()) return s;
  if (!input.parameters().contains(kRegion)) {
    return TakeData(input, from, next, *tensor.mutable_data(), to.data);
  }
  Result<MemoryRegion> region = FindRegion(input.parameters(), regions);
  if (!region.ok()) return region.status();
  if (auto* const shared = std::get_if<v1::SharedMemoryRegion>(&*region)) {
    *tensor.mutable_shared_memory() = std::move(*shared);
  } else {
    *tensor.mutable_cuda_memory() =
        std::get<v1::CudaMemoryRegion>(*std::move(region));
  }
  return {};
}

Status TakeInputs(const ParsedInfer& from, const Regions& regions,
                  google::protobuf::Message& attributes,
                  ParsedMessage<v1::TopKRequest>& to) {
  size_t next = 0;
  bool has_x = false;
  bool has_k = false;
  for (const Input& input : from.message.inputs()) {
    const bool is_x = input.name() == kInputX;
    if ((!is_x && input.name() != kInputK) ||
        std::exchange(is_x ? has_x : has_k, true)) {
      return UnknownTensor("input", input.name(), from.message);
    }
    if (input.has_contents() &&
        (from.content_count > 0 || input.parameters().contains(kRegion))) {
      return InvalidArgument(
          "CONTENTS_TWICE", "inputs.contents",
          StrCat("contents field must not be specified when using "
                 "raw_input_contents or shared memory for ",
                 NameWithModel(input.name(), from.message)));
    }
    Status status = is_x ? TakeX(input, from, regions, next, to)
                         : TakeK(input, from, next, attributes);
    if (!status.ok()) return status;
  }
  if (!has_x) {
    return InvalidArgument(
        "INPUT_MISSING", "inputs",
        StrCat("expected 1 inputs but got 0 inputs for model ",
               SingleQuote(from.message.model_name()), ": ",
               SingleQuote(kInputX), " is missing"));
  }
  if (next == from.content_count) return {};
  return InvalidArgument("CONTENTS_LEFT", "raw_input_contents",
                         StrCat("the request has ", from.content_count,
                                " raw_input_contents; its inputs use ", next));
}

Status TakeOutputs(const ModelInferRequest& from, const Regions& regions,
                   v1::TopKRequest& to) {
  bool values = false;
  bool indices = false;
  for (const RequestedOutput& output : from.outputs()) {
    const bool is_values = output.name() == kOutputValues;
    if (!is_values && output.name() != kOutputIndices) {
      return UnknownTensor("output", output.name(), from);
    }
    if (std::exchange(is_values ? values : indices, true)) {
      return InvalidArgument(
          "UNKNOWN_TENSOR", "outputs",
          StrCat("inference output ", NameWithModel(output.name(), from),
                 " is requested twice"));
    }
    if (output.parameters().contains("classification")) {
      return Unimplemented("CLASSIFICATION", "outputs.parameters",
                           "classification of outputs is not supported");
    }
    if (!output.parameters().contains(kRegion)) continue;
    Result<MemoryRegion> region = FindRegion(output.parameters(), regions);
    if (!region.ok()) return region.status();
    v1::OutputOptions& options = *to.mutable_output();
    if (auto* const shared = std::get_if<v1::SharedMemoryRegion>(&*region)) {
      *(is_values ? options.mutable_values() : options.mutable_indices()) =
          std::move(*shared);
    } else {
      *(is_values ? options.mutable_cuda_values()
                  : options.mutable_cuda_indices()) =
          std::get<v1::CudaMemoryRegion>(*std::move(region));
    }
  }
  if (values == indices) return {};  // a request without outputs gets both
  to.mutable_output()->set_selection(values
                                         ? v1::OUTPUT_SELECTION_VALUES_ONLY
                                         : v1::OUTPUT_SELECTION_INDICES_ONLY);
  return {};
}

}  // namespace

Status ParseInfer(const ParsedInfer& from, const Model& model,
                  const Regions& regions, ParsedMessage<v1::TopKRequest>& to) {
  v1::TopKRequest& request = to.message;
  request.mutable_spec()->set_dialect(model.dialect->id);
  request.mutable_spec()->set_version(model.version->version);
  request.set_request_id(from.message.id());
  google::protobuf::Message& attributes =
      *request.GetReflection()->MutableMessage(
          &request, request.GetDescriptor()->FindFieldByNumber(
                        static_cast<int>(model.dialect->attributes)));
  Status status = SetParameters(from.message.parameters(), attributes, request);
  if (status.ok()) status = TakeInputs(from, regions, attributes, to);
  if (status.ok()) status = TakeOutputs(from.message, regions, request);
  return status;
}

std::string OipField(const std::string& field, const Model& model,
                     const ModelInferRequest& request) {
  constexpr std::string_view kTensor = "tensor.";
  constexpr std::string_view kType = ".data_type";
  const std::string attributes = StrCat(model.dialect->name, ".");
  if (field.starts_with(attributes)) {
    const std::string name = field.substr(attributes.size());
    const bool is_k = name == "k" || name.starts_with("k.");
    if (is_k && std::ranges::any_of(request.inputs(), [](const Input& input) {
          return input.name() == kInputK;
        })) {
      return StrCat("inputs[K]", name.ends_with(kType) ? ".datatype" : "");
    }
    // For an output, a client can set only the data type.
    const bool is_output = name.starts_with("output_");
    if (is_output && !name.ends_with(kType)) return "outputs";
    return StrCat("parameters[", Quote(is_k ? "k" : name), "]");
  }
  if (field == "request_id") return "id";
  if (field == "index_offset") return "parameters[\"index_offset\"]";
  if (field == "tensor.data") {
    const bool is_typed =
        std::ranges::any_of(request.inputs(), [](const Input& input) {
          return input.name() == kInputX && input.has_contents();
        });
    return is_typed ? "inputs[X].contents" : "raw_input_contents";
  }
  if (field == "tensor.data_type") return "inputs[X].datatype";
  if (field.starts_with("tensor.shared_memory") ||
      field.starts_with("tensor.cuda_memory")) {
    return "inputs[X].parameters";
  }
  if (field.starts_with("output.")) return "outputs.parameters";
  if (!field.starts_with(kTensor)) return field;
  return StrCat("inputs[X].", field.substr(kTensor.size()));
}

}  // namespace topk
