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

// A wrapper has one field, `value`, of its type.
template <class Wrapper>
auto ValueOf(const InferParameter& parameter) {
  Wrapper wrapper;
  const Status status = Set("value", parameter, wrapper);
  EXPECT_TRUE(status.ok()) << status.message;
  return wrapper.value();
}
template <class Wrapper>
std::string ReasonOf(const InferParameter& parameter) {
  Wrapper wrapper;
  return Set("value", parameter, wrapper).reason;
}

TEST(OipParameters, SetFieldsOfEveryType) {
  EXPECT_TRUE(ValueOf<google::protobuf::BoolValue>(Of(true)));
  EXPECT_TRUE(ValueOf<google::protobuf::BoolValue>(Of(int64_t{1})));
  EXPECT_EQ(ValueOf<google::protobuf::Int64Value>(Of(INT64_MIN)), INT64_MIN);
  EXPECT_EQ(ValueOf<google::protobuf::Int64Value>(Of(uint64_t{7})), 7);
  EXPECT_EQ(ValueOf<google::protobuf::StringValue>(Of("max")), "max");
  v1::DirectMLTopK directml;
  for (const InferParameter& value :
       {Of(int64_t{2}), Of("DECREASING"), Of("axis_direction_decreasing")}) {
    directml.Clear();
    EXPECT_TRUE(Set("axis_direction", value, directml).ok());
    EXPECT_EQ(directml.axis_direction(), v1::AXIS_DIRECTION_DECREASING);
  }
}

TEST(OipParameters, RejectValuesThatAFieldCannotHold) {
  EXPECT_EQ(ReasonOf<google::protobuf::BoolValue>(Of(int64_t{2})),
            "PARAMETER_TYPE");
  EXPECT_EQ(ReasonOf<google::protobuf::Int64Value>(Of(UINT64_MAX)),
            "PARAMETER_TYPE");
  EXPECT_EQ(ReasonOf<google::protobuf::Int64Value>(Of(0.5)), "PARAMETER_TYPE");
  EXPECT_EQ(ReasonOf<google::protobuf::StringValue>(Of(int64_t{1})),
            "PARAMETER_TYPE");
  EXPECT_EQ(ReasonOf<google::protobuf::DoubleValue>(Of(0.5)),
            "UNKNOWN_PARAMETER");
}

// Fails if a dialect gets an attribute of a type that is not read.
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
