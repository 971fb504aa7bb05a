// Parameters of the Open Inference Protocol become attributes.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/text.h"
#include "server/oip/parameters.h"

namespace topk {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

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
        for (const char* value :
             {"bool_param: true", "int64_param: 1", "uint64_param: 1",
              "double_param: 0.5", "string_param: 'f32'", ""}) {
          google::protobuf::Map<std::string, inference::InferParameter> one;
          ASSERT_TRUE(
              google::protobuf::TextFormat::ParseFromString(value, &one[name]));
          v1::TopKRequest request;
          Message& to =
              *request.GetReflection()->MutableMessage(&request, &dialect);
          v1::TopKRequest other;
          const Status status = SetParameters(one, to, other);
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
