// Parameters of the Open Inference Protocol become attributes.
#include <google/protobuf/wrappers.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/text.h"
#include "server/oip/parameters.h"

namespace topk {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using inference::InferParameter;

InferParameter Of(bool value) {
  InferParameter parameter;
  parameter.set_bool_param(value);
  return parameter;
}
InferParameter Of(int64_t value) {
  InferParameter parameter;
  parameter.set_int64_param(value);
  return parameter;
}
InferParameter Of(uint64_t value) {
  InferParameter parameter;
  parameter.set_uint64_param(value);
  return parameter;
}
InferParameter Of(double value) {
  InferParameter parameter;
  parameter.set_double_param(value);
  return parameter;
}
InferParameter Of(const char* value) {
  InferParameter parameter;
  parameter.set_string_param(value);
  return parameter;
}

Status Set(const std::string& name, const InferParameter& value, Message& to) {
  google::protobuf::Map<std::string, InferParameter> parameters;
  parameters[name] = value;
  v1::TopKRequest request;
  return SetParameters(parameters, to, request);
}

// Fails if a new attribute has a type that SetParameters() does not support.
TEST(OipParameters, EveryAttributeOfEveryDialectIsSetOrRejected) {
  const auto* attributes =
      v1::TopKRequest::descriptor()->FindOneofByName("attributes");
  ASSERT_NE(attributes, nullptr);
  for (int i = 0; i < attributes->field_count(); ++i) {
    const FieldDescriptor& dialect = *attributes->field(i);
    for (int j = 0; j < dialect.message_type()->field_count(); ++j) {
      const FieldDescriptor& attribute = *dialect.message_type()->field(j);
      const std::string whole(attribute.name());
      std::vector<std::string> names = {whole};
      if (attribute.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const auto& inner = *attribute.message_type();
        for (int n = 0; n < inner.field_count(); ++n) {
          names.push_back(StrCat(whole, ".", inner.field(n)->name()));
        }
      }
      for (const std::string& name : names) {
        int accepted = 0;
        for (const InferParameter& value :
             {Of(true), Of(int64_t{1}), Of(uint64_t{1}), Of(0.5), Of("f32"),
              InferParameter()}) {
          v1::TopKRequest request;
          Message& to =
              *request.GetReflection()->MutableMessage(&request, &dialect);
          const Status status = Set(name, value, to);
          accepted += status.ok() ? 1 : 0;
          EXPECT_TRUE(status.ok() || status.code == Code::kInvalidArgument);
        }
        if (!attribute.is_repeated() &&
            attribute.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
          EXPECT_GT(accepted, 0) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace topk
