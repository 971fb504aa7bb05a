#include "server/oip/infer_request.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "server/oip/data_types.h"
#include "server/oip/parameters.h"
#include "server/oip/text.h"
#include "server/oip/typed_contents.h"

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

Status Unexpected(std::string_view what, const std::string& name,
                  const std::string& model) {
  return InvalidArgument("UNKNOWN_TENSOR", StrCat(what, "s"),
                         StrCat("unexpected inference ", what, " ", Tick(name),
                                " for model ", Tick(model)));
}

bool IsShared(const Input& input) {
  return !input.parameters().empty() && input.parameters().contains(kRegion);
}

// Returns a number of a tensor's parameters, or a default.
Result<int64_t> Number(const Parameters& parameters, const char* name,
                       std::optional<int64_t> usual) {
  const auto found = parameters.find(name);
  if (found != parameters.end()) return ReadInteger(name, found->second);
  if (usual.has_value()) return *usual;
  return InvalidArgument("SHARED_MEMORY_SIZE", name,
                         StrCat(name, " is required with ", kRegion));
}

// Returns where a tensor's parameters say that it lies.
Result<v1::SharedMemoryRegion> FindRegion(const Parameters& parameters,
                                          const Regions& regions) {
  const Result<std::string> name = ReadText(kRegion, parameters.at(kRegion));
  if (!name.ok()) return name.status();
  const Result<int64_t> offset = Number(parameters, kOffset, 0);
  if (!offset.ok()) return offset.status();
  const Result<int64_t> bytes = Number(parameters, kByteSize, std::nullopt);
  if (!bytes.ok()) return bytes.status();
  return regions.Find(*name, *offset, *bytes);
}

// Takes an input's type and shape.
Status Describe(const Input& input, v1::Tensor& tensor) {
  const OipType& type = FindOipType(input.datatype());
  if (type.name.empty()) {
    return InvalidArgument(
        "DATATYPE", "inputs.datatype",
        StrCat("datatype ", Quote(input.datatype()), " of input ",
               Tick(input.name()), " is not supported"));
  }
  tensor.set_data_type(type.type);
  *tensor.mutable_shape() = input.shape();
  return {};
}

// Where an input's data is: in pieces, or made of what it has one by one.
struct Data {
  Pieces pieces;
  std::string own;
};

// Returns an input's data: the next raw contents or its typed contents.
// REQUIRES: at most one call each for inputs X and K.
Result<Data> TakeData(const Input& input, const RawInfer& from, size_t& next) {
  const std::string& model = from.message.model_name();
  if (from.content_count == 0) {
    Result<std::string> bytes = BytesOf(input, model);
    if (!bytes.ok()) return bytes.status();
    return Data{{}, *std::move(bytes)};
  }
  if (input.has_contents()) {
    return InvalidArgument(
        "CONTENTS_TWICE", "inputs.contents",
        StrCat("contents field must not be specified when using "
               "raw_input_contents for ",
               Tick(input.name()), " for model ", Tick(model)));
  }
  if (next == from.content_count) {
    return InvalidArgument(
        "CONTENTS_MISSING", "raw_input_contents",
        StrCat("unable to find data for input tensor ", Tick(input.name()),
               " for model ", Tick(model), " in request."));
  }
  return Data{from.contents[next++], ""};
}

// Returns K's data together. INVALID_ARGUMENT if it is longer than any K.
Result<std::string> Join(const Data& data) {
  constexpr size_t kMaxBytes = 64;
  size_t size = data.own.size();
  for (const auto& piece : data.pieces) size += piece.size();
  if (size > kMaxBytes) {
    return InvalidArgument(
        "DATA_LENGTH", "inputs",
        StrCat("K has ", size, " bytes of data; it must be one integer"));
  }
  std::string all = data.own;
  for (const auto& piece : data.pieces) {
    all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return all;
}

// Sets K as a tensor where the operator takes one, else as a number.
Status SetK(const Input& input, const Data& data,
            google::protobuf::Message& attributes) {
  v1::KInput k;
  v1::Tensor& tensor = *k.mutable_tensor();
  if (Status s = Describe(input, tensor); !s.ok()) return s;
  Result<std::string> bytes = Join(data);
  if (!bytes.ok()) return bytes.status();
  tensor.set_data(*std::move(bytes));
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
  if (tensor.data_type() != v1::DATA_TYPE_I64 ||
      tensor.data().size() != sizeof(number)) {
    return InvalidArgument("K_TYPE", "inputs", "K must be one INT64 element");
  }
  std::memcpy(&number, tensor.data().data(), sizeof(number));
  reflection->SetInt64(&attributes, field, number);
  return {};
}

Status TakeX(const Input& input, const RawInfer& from, const Regions& regions,
             size_t& next, v1::Tensor& tensor, Pieces& pieces) {
  if (Status s = Describe(input, tensor); !s.ok()) return s;
  if (IsShared(input)) {
    if (input.has_contents()) {
      return InvalidArgument(
          "CONTENTS_TWICE", "inputs.contents",
          StrCat("unexpected 'content' provided when using shared memory for "
                 "input tensor ",
                 Tick(input.name()), " for model ",
                 Tick(from.message.model_name())));
    }
    Result<v1::SharedMemoryRegion> region =
        FindRegion(input.parameters(), regions);
    if (!region.ok()) return region.status();
    *tensor.mutable_shared_memory() = *std::move(region);
    return {};
  }
  Result<Data> data = TakeData(input, from, next);
  if (!data.ok()) return data.status();
  pieces = data->pieces;
  if (pieces.empty()) tensor.set_data(std::move(data->own));
  return {};
}

Status TakeInputs(const RawInfer& from, const Regions& regions,
                  google::protobuf::Message& attributes, v1::Tensor& tensor,
                  Pieces& pieces) {
  const std::string& model = from.message.model_name();
  size_t next = 0;
  bool has_x = false;
  bool has_k = false;
  for (const Input& input : from.message.inputs()) {
    const bool is_x = input.name() == kInputX;
    bool& has = is_x ? has_x : has_k;
    if ((!is_x && input.name() != kInputK) || has) {
      return Unexpected("input", input.name(), model);
    }
    has = true;
    if (is_x) {
      if (Status s = TakeX(input, from, regions, next, tensor, pieces);
          !s.ok()) {
        return s;
      }
      continue;
    }
    if (IsShared(input)) {
      return Unimplemented("K_IN_SHARED_MEMORY", "inputs",
                           "K must be in the request itself");
    }
    const Result<Data> data = TakeData(input, from, next);
    if (!data.ok()) return data.status();
    if (Status s = SetK(input, *data, attributes); !s.ok()) return s;
  }
  if (!has_x) {
    return InvalidArgument(
        "INPUT_MISSING", "inputs",
        StrCat("expected 1 inputs but got 0 inputs for model ", Tick(model),
               ": ", Tick(kInputX), " is missing"));
  }
  if (next == from.content_count) return {};
  return InvalidArgument("CONTENTS_LEFT", "raw_input_contents",
                         StrCat("the request has ", from.content_count,
                                " raw_input_contents for ", next, " inputs"));
}

Status TakeOutputs(const ModelInferRequest& from, const Regions& regions,
                   v1::TopKRequest& to) {
  bool values = false;
  bool indices = false;
  for (const RequestedOutput& output : from.outputs()) {
    const bool is_values = output.name() == kOutputValues;
    if (!is_values && output.name() != kOutputIndices) {
      return Unexpected("output", output.name(), from.model_name());
    }
    (is_values ? values : indices) = true;
    if (output.parameters().contains("classification")) {
      return Unimplemented("CLASSIFICATION", "outputs.parameters",
                           "classification of outputs is not supported");
    }
    if (!output.parameters().contains(kRegion)) continue;
    Result<v1::SharedMemoryRegion> region =
        FindRegion(output.parameters(), regions);
    if (!region.ok()) return region.status();
    v1::OutputOptions& options = *to.mutable_output();
    *(is_values ? options.mutable_values() : options.mutable_indices()) =
        *std::move(region);
  }
  if (values == indices) return {};  // both, or none, which is both
  to.mutable_output()->set_selection(values
                                         ? v1::OUTPUT_SELECTION_VALUES_ONLY
                                         : v1::OUTPUT_SELECTION_INDICES_ONLY);
  return {};
}

}  // namespace

Result<Pieces> Understand(const RawInfer& from, const Model& model,
                          const Regions& regions, v1::TopKRequest& to) {
  to.mutable_spec()->set_dialect(model.dialect->id);
  to.mutable_spec()->set_version(model.version->version);
  to.set_request_id(from.message.id());
  google::protobuf::Message& attributes = *to.GetReflection()->MutableMessage(
      &to, to.GetDescriptor()->FindFieldByNumber(
               static_cast<int>(model.dialect->attributes)));
  if (Status s = SetParameters(from.message.parameters(), attributes, to);
      !s.ok()) {
    return s;
  }
  Pieces pieces;
  if (Status s =
          TakeInputs(from, regions, attributes, *to.mutable_tensor(), pieces);
      !s.ok()) {
    return s;
  }
  if (Status s = TakeOutputs(from.message, regions, to); !s.ok()) return s;
  return pieces;
}

std::string OipField(const std::string& field, const Model& model,
                     const ModelInferRequest& request) {
  const std::string attributes = StrCat(model.dialect->name, ".");
  if (field.starts_with(attributes)) {
    const std::string name = field.substr(attributes.size());
    // An output's description, of which only the data type is a parameter.
    constexpr std::string_view kOutput = "output_";
    if (name.starts_with(kOutput) && !name.ends_with(".data_type")) {
      return "outputs";
    }
    const bool is_k = name == "k" || name.starts_with("k.");
    if (is_k && std::ranges::any_of(request.inputs(), [](const Input& input) {
          return input.name() == kInputK;
        })) {
      constexpr std::string_view kType = ".data_type";
      return StrCat("inputs[K]", name.ends_with(kType) ? ".datatype" : "");
    }
    return StrCat("parameters[", Quote(is_k ? "k" : name), "]");
  }
  if (field == "index_offset") return "parameters[\"index_offset\"]";
  if (field == "tensor.data") return "raw_input_contents";
  if (field == "tensor.data_type") return "inputs[X].datatype";
  constexpr std::string_view kTensor = "tensor.";
  if (field.starts_with(kTensor)) {
    return StrCat("inputs[X].", field.substr(kTensor.size()));
  }
  return field == "request_id" ? "id" : field;
}

}  // namespace topk
