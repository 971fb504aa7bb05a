#include "server/oip/parameters.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <string_view>
#include <utility>

#include "core/base/text.h"

namespace topk {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using inference::InferParameter;

// Sequences, priorities and the like: clients send some of them always.
constexpr std::array<std::string_view, 7> kIgnored = {
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
    "binary_data_output",
    "triton_enable_empty_final_response"};

std::string FieldOf(const std::string& name) {
  return StrCat("parameters[", Quote(name), "]");
}

Status Wrong(const std::string& name, std::string_view kind) {
  return InvalidArgument("PARAMETER_TYPE", FieldOf(name),
                         StrCat("parameter ", Quote(name), " must be ", kind));
}

Status Unknown(const std::string& name, const Message& attributes) {
  std::string known;
  for (int i = 0; i < attributes.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *attributes.GetDescriptor()->field(i);
    const bool is_output = field.message_type() != nullptr &&
                           field.message_type() == v1::TensorDesc::descriptor();
    known += StrCat(field.name(), is_output ? ".data_type, " : ", ");
  }
  return InvalidArgument("UNKNOWN_PARAMETER", FieldOf(name),
                         StrCat("parameter ", Quote(name), " is not one of ",
                                known, "index_offset"));
}

// Returns an enum's number. Its values begin with what its first one,
// ..._UNSPECIFIED, begins with.
Result<int> ReadEnum(const std::string& name, const InferParameter& value,
                     const EnumDescriptor& type) {
  if (!value.has_string_param()) {
    const Result<int64_t> number = ReadInteger(name, value);
    if (!number.ok()) return number.status();
    if (*number < 0 || !std::in_range<int>(*number)) {
      return Wrong(name, "the number of a value");
    }
    return static_cast<int>(*number);
  }
  std::string text = value.string_param();
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  const std::string first(type.value(0)->name());
  const std::string prefix = first.substr(0, first.rfind("UNSPECIFIED"));
  const EnumValueDescriptor* found = type.FindValueByName(text);
  if (found == nullptr) found = type.FindValueByName(prefix + text);
  if (found != nullptr) return found->number();
  return InvalidArgument(
      "PARAMETER_VALUE", FieldOf(name),
      StrCat("parameter ", Quote(name), " = ", Quote(value.string_param()),
             " is not a value of ", type.name()));
}

Result<bool> ReadBool(const std::string& name, const InferParameter& value) {
  const Result<int64_t> number = ReadInteger(name, value);
  if (number.ok() && (*number == 0 || *number == 1)) return *number == 1;
  return Wrong(name, "true or false");
}

// Sets a field that is neither a message nor repeated, of the types that the
// attributes of the dialects have.
Status SetPlain(const FieldDescriptor& field, const std::string& name,
                const InferParameter& value, Message& to) {
  const auto* reflection = to.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: {
      const Result<bool> read = ReadBool(name, value);
      if (!read.ok()) return read.status();
      reflection->SetBool(&to, &field, *read);
      return {};
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const Result<int64_t> read = ReadInteger(name, value);
      if (!read.ok()) return read.status();
      reflection->SetInt64(&to, &field, *read);
      return {};
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      Result<std::string> read = ReadText(name, value);
      if (!read.ok()) return read.status();
      reflection->SetString(&to, &field, *std::move(read));
      return {};
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const Result<int> read = ReadEnum(name, value, *field.enum_type());
      if (!read.ok()) return read.status();
      reflection->SetEnumValue(&to, &field, *read);
      return {};
    }
    default:
      return Unknown(name, to);
  }
}

// Returns a field that a parameter can set, or nullptr.
const FieldDescriptor* FindField(const Message& in, const std::string& name) {
  const FieldDescriptor* field = in.GetDescriptor()->FindFieldByName(name);
  return field == nullptr || field->is_repeated() ? nullptr : field;
}

Status SetAttribute(const std::string& name, const InferParameter& value,
                    Message& attributes) {
  const size_t dot = name.find('.');
  const FieldDescriptor* field = FindField(attributes, name.substr(0, dot));
  if (field == nullptr) return Unknown(name, attributes);
  const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (!nested) {
    if (dot != std::string::npos) return Unknown(name, attributes);
    return SetPlain(*field, name, value, attributes);
  }
  Message& inner =
      *attributes.GetReflection()->MutableMessage(&attributes, field);
  // K is a message whose `value` is the number. Only the data type of an
  // output's description can be set: the protocol's outputs are packed.
  const bool whole = dot == std::string::npos;
  const FieldDescriptor* part =
      FindField(inner, whole ? "value" : name.substr(dot + 1));
  const auto wanted =
      whole ? FieldDescriptor::TYPE_INT64 : FieldDescriptor::TYPE_ENUM;
  if (part == nullptr || part->type() != wanted) {
    return Unknown(name, attributes);
  }
  return SetPlain(*part, name, value, inner);
}

}  // namespace

Status SetParameters(
    const google::protobuf::Map<std::string, InferParameter>& from,
    Message& attributes, v1::TopKRequest& request) {
  for (const auto& [name, value] : from) {
    if (std::ranges::find(kIgnored, name) != kIgnored.end()) continue;
    if (name == "index_offset") {
      const Result<int64_t> offset = ReadInteger(name, value);
      if (!offset.ok()) return offset.status();
      request.set_index_offset(*offset);
      continue;
    }
    if (Status s = SetAttribute(name, value, attributes); !s.ok()) return s;
  }
  return {};
}

Result<int64_t> ReadInteger(const std::string& name,
                            const InferParameter& value) {
  switch (value.parameter_choice_case()) {
    case InferParameter::kInt64Param:
      return value.int64_param();
    case InferParameter::kBoolParam:  // Python's True is its 1
      return int64_t{value.bool_param()};
    case InferParameter::kUint64Param:
      if (value.uint64_param() <= std::numeric_limits<int64_t>::max()) {
        return static_cast<int64_t>(value.uint64_param());
      }
      break;
    default:
      break;
  }
  return Wrong(name, "a whole number");
}

Result<std::string> ReadText(const std::string& name,
                             const InferParameter& value) {
  if (value.has_string_param()) return value.string_param();
  return Wrong(name, "a string");
}

}  // namespace topk
