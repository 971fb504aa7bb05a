#include "client/cli/output.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

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

TEST(ElementText, FormatsEveryType) {
  const auto text = [](DType type, const std::string& data) {
    return ElementText(type, data, 0);
  };
  EXPECT_EQ(text(DType::kF32, Bytes<float>({0.1f})), "0.1");
  EXPECT_EQ(text(DType::kF64, Bytes<double>({-1e300})), "-1e+300");
  EXPECT_EQ(text(DType::kF16, Bytes<uint16_t>({0x3C00})), "1");
  EXPECT_EQ(text(DType::kF16, Bytes<uint16_t>({0x0001})), "5.9604645e-08");
  EXPECT_EQ(text(DType::kF16, Bytes<uint16_t>({0x7BFF})), "65504");
  EXPECT_EQ(text(DType::kF16, Bytes<uint16_t>({0xFC00})), "-inf");
  EXPECT_EQ(text(DType::kF16, Bytes<uint16_t>({0xFE00})), "nan");
  EXPECT_EQ(text(DType::kBF16, Bytes<uint16_t>({0xC000})), "-2");
  EXPECT_EQ(text(DType::kI8, Bytes<int8_t>({-128})), "-128");
  EXPECT_EQ(text(DType::kU8, Bytes<uint8_t>({255})), "255");
  EXPECT_EQ(text(DType::kI16, Bytes<int16_t>({-2})), "-2");
  EXPECT_EQ(text(DType::kU16, Bytes<uint16_t>({65535})), "65535");
  EXPECT_EQ(text(DType::kI32, Bytes<int32_t>({-3})), "-3");
  EXPECT_EQ(text(DType::kU32, Bytes<uint32_t>({4294967295u})), "4294967295");
  EXPECT_EQ(text(DType::kI64, Bytes<int64_t>({INT64_MIN})),
            "-9223372036854775808");
  EXPECT_EQ(text(DType::kU64, Bytes<uint64_t>({UINT64_MAX})),
            "18446744073709551615");
}

// Types smaller than a byte, and every kind of number.
TEST(ElementText, FormatsTypesOfAByteOrLess) {
  const auto text = [](DType type, std::initializer_list<uint8_t> bytes,
                       int64_t i) {
    return ElementText(type, Bytes<uint8_t>(bytes), i);
  };
  EXPECT_EQ(text(DType::kU1, {0x40}, 1), "1");
  EXPECT_EQ(text(DType::kU2, {0x08}, 1), "2");
  EXPECT_EQ(text(DType::kU3, {0x40, 0x01}, 2), "5");
  EXPECT_EQ(text(DType::kU4, {0xF0}, 1), "15");
  EXPECT_EQ(text(DType::kU6, {0xC0, 0x0F}, 1), "63");
  EXPECT_EQ(text(DType::kI4, {0x7F}, 0), "-1");
  EXPECT_EQ(text(DType::kI4, {0x7F}, 1), "7");
  EXPECT_EQ(text(DType::kNF4, {0x70}, 0), "-1");
  EXPECT_EQ(text(DType::kNF4, {0x70}, 1), "0");
  EXPECT_EQ(text(DType::kF4E2M1, {0xF1}, 0), "0.5");
  EXPECT_EQ(text(DType::kF4E2M1, {0xF1}, 1), "-6");
  EXPECT_EQ(text(DType::kF8E4M3, {0x7E}, 0), "448");
  EXPECT_EQ(text(DType::kF8E4M3, {0x81}, 0), "-0.001953125");
  EXPECT_EQ(text(DType::kF8E4M3, {0xFF}, 0), "nan");
  EXPECT_EQ(text(DType::kF8E5M2, {0xFC}, 0), "-inf");
  EXPECT_EQ(text(DType::kF8E5M2, {0x7B}, 0), "57344");
  EXPECT_EQ(text(DType::kF8E5M2, {0x7D}, 0), "nan");
  EXPECT_EQ(text(DType::kF8E8M0, {0x80}, 0), "2");
  EXPECT_EQ(text(DType::kF8E8M0, {0xFF}, 0), "nan");
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
