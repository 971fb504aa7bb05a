#include "client/cli/output.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <sstream>

#include "core/base/dtype.h"
#include "tests/support/oracle.h"

namespace topk::cli {
namespace {

template <class T>
std::string Bytes(std::initializer_list<T> values) {
  std::string data;
  for (const T value : values) {
    data.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return data;
}

v1::TopKResponse Response() {
  v1::TopKResponse response;
  response.mutable_values()->set_data_type(v1::DATA_TYPE_F32);
  response.mutable_values()->add_shape(2);
  response.mutable_values()->add_shape(2);
  response.mutable_values()->set_data(Bytes<float>({0.5f, -1, 10, NAN}));
  *response.mutable_indices() = response.values();
  response.mutable_indices()->set_data_type(v1::DATA_TYPE_I64);
  response.mutable_indices()->set_data(Bytes<int64_t>({1, 0, 1, 0}));
  return response;
}

// Tests every code of types of up to 16 bits, and random bits of wider types.
TEST(ElementText, ReadsBackAsTheSameNumber) {
  std::mt19937_64 random(1);
  for (const DTypeInfo& type : kDTypes) {
    const auto of = static_cast<v1::DataType>(type.type);
    const size_t count = type.bits <= 16 ? size_t{1} << type.bits : 1000;
    v1::Tensor tensor;
    tensor.set_data_type(of);
    std::string& data = *tensor.mutable_data();
    data.resize(testing::DataBytes(of, count));
    for (size_t i = 0; i < count; ++i) {
      testing::WriteBits(of, i, type.bits <= 16 ? i : random(), data);
      const std::string text = ElementText(tensor, static_cast<int64_t>(i));
      const testing::Number number = testing::ReadNumber(of, data, i);
      const char* const begin = text.c_str();
      if (number.nan) {
        ASSERT_EQ(text, "nan") << type.name;
      } else if (type.type == DType::kF64) {
        ASSERT_EQ(std::strtod(begin, nullptr), number.value) << text;
      } else if (type.name.find('f') == std::string::npos) {
        ASSERT_EQ(std::strtold(begin, nullptr), number.value) << text;
      } else {
        ASSERT_EQ(std::strtof(begin, nullptr), static_cast<float>(number.value))
            << type.name << " " << text;
      }
    }
  }
  EXPECT_EQ(ElementText(Response().values(), 0), "0.5");
}

TEST(PrintTable, PrintsTheFirstAxis) {
  std::ostringstream out;
  PrintTable(Response(), 0, {}, {20, 0}, out);
  EXPECT_EQ(out.str(),
            "[:, 0]  0.5 @1   10 @1\n"
            "[:, 1]   -1 @0  nan @0\n");
}

TEST(PrintTable, PrintsLabels) {
  std::ostringstream out;
  PrintTable(Response(), 1, {{"a", "b"}, {"x", "yy"}}, {20, 0}, out);
  EXPECT_EQ(out.str(),
            "[0, :] x   -> b a  0.5 @1   -1 @0\n"
            "[1, :] yy  -> b a   10 @1  nan @0\n");
}

TEST(ToJson, IsExactAndWithoutNaN) {
  const nlohmann::json json = ToJson(Response());
  EXPECT_EQ(json["shape"], (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(json["values"].dump(), "[0.5,-1.0,10.0,\"nan\"]");
  EXPECT_EQ(json["indices"].dump(), "[1,0,1,0]");
  EXPECT_EQ(json["values_type"], "f32");
}

}  // namespace
}  // namespace topk::cli
