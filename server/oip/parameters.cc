#include "server/oip/parameters.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cctype>
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

// Parameters that the protocol reserves, e.g. for sequences and priorities.
// They are ignored because some clients always send them.
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

Status WrongType(const std::string& name, std::string_view expected) {
  return InvalidArgument(
      "PARAMETER_TYPE", FieldOf(name),
      StrCat("parameter ", Quote(name), " must be ", expected));
}

// Returns the name of the parameter for `attribute`. For an output, only the
// data type has a parameter, because this protocol always packs outputs.
std::string ParameterOf(const FieldDescriptor& attribute) {
  const bool is_output =
      attribute.message_type() != nullptr &&
      attribute.message_type() == v1::TensorDesc::descriptor();
  return StrCat(attribute.name(), is_output ? ".data_type" : "");
}

Status Unknown(const std::string& name, const Message& attributes) {
  std::string known;
  for (int i = 0; i < attributes.GetDescriptor()->field_count(); ++i) {
    known += StrCat(ParameterOf(*attributes.GetDescriptor()->field(i)), ", ");
  }
  return InvalidArgument("UNKNOWN_PARAMETER", FieldOf(name),
                         StrCat("parameter ", Quote(name), " is not one of ",
                                known, "index_offset"));
}

// Reads an enum value from a number or a name. The name may omit the enum's
// prefix, which is derived from the first value, PREFIX_UNSPECIFIED.
Result<int> ReadEnum(const std::string& name, const InferParameter& value,
                     const EnumDescriptor& type) {
  if (!value.has_string_param()) {
    const Result<int64_t> number = ReadInteger(name, value);
    if (!number.ok()) return number.status();
    if (*number < 0 || !std::in_range<int>(*number)) {
      return WrongType(name, "the number of an enum value");
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
  return WrongType(name, "true or false");
}

// Sets a field of an attribute with the setter for its type. Reflection would
// abort the process if the setter did not match the type.
Status SetField(const FieldDescriptor& field, const std::string& name,
                const InferParameter& value, Message& to) {
  using Reflection = google::protobuf::Reflection;
  const auto set = [&](const auto& read, auto setter) -> Status {
    if (!read.ok()) return read.status();
    (to.GetReflection()->*setter)(&to, &field, *read);
    return {};
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(ReadBool(name, value), &Reflection::SetBool);
    case FieldDescriptor::CPPTYPE_INT64:
      return set(ReadInteger(name, value), &Reflection::SetInt64);
    case FieldDescriptor::CPPTYPE_ENUM:
      return set(ReadEnum(name, value, *field.enum_type()),
                 &Reflection::SetEnumValue);
    case FieldDescriptor::CPPTYPE_STRING: {  // overloaded in some versions
      Result<std::string> text = ReadText(name, value);
      if (!text.ok()) return text.status();
      to.GetReflection()->SetString(&to, &field, *std::move(text));
      return {};
    }
    default:
      return Unknown(name, to);
  }
}

Status SetAttribute(const std::string& name, const InferParameter& value,
                    Message& attributes) {
  const FieldDescriptor* field = attributes.GetDescriptor()->FindFieldByName(
      name.substr(0, name.find('.')));
  if (field == nullptr || field->is_repeated() || name != ParameterOf(*field)) {
    return Unknown(name, attributes);
  }
  if (field->message_type() == nullptr) {
    return SetField(*field, name, value, attributes);
  }
  Message& inner =
      *attributes.GetReflection()->MutableMessage(&attributes, field);
  const bool is_k = field->message_type() == v1::KInput::descriptor();
  const FieldDescriptor* part =
      inner.GetDescriptor()->FindFieldByName(is_k ? "value" : "data_type");
  if (part == nullptr) return Unknown(name, attributes);
  return SetField(*part, name, value, inner);
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
  if (value.has_int64_param()) return value.int64_param();
  // Accept a bool too, because a bool is also an int in Python.
  if (value.has_bool_param()) return int64_t{value.bool_param()};
  if (value.has_uint64_param() &&
      std::in_range<int64_t>(value.uint64_param())) {
    return static_cast<int64_t>(value.uint64_param());
  }
  return WrongType(name, "a whole number");
}

Result<std::string> ReadText(const std::string& name,
                             const InferParameter& value) {
  if (value.has_string_param()) return value.string_param();
  return WrongType(name, "a string");
}

}  // namespace topk
