// The checks that the dialects share.
#include "core/dialects/checks.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace topk {
namespace {

constexpr std::array<DType, 14> kIntegers = {
    DType::kI8,  DType::kI16, DType::kI32, DType::kI64, DType::kU8,
    DType::kU16, DType::kU32, DType::kU64, DType::kU1,  DType::kU2,
    DType::kU3,  DType::kU4,  DType::kU6,  DType::kI4};
constexpr KRule kScalar = {kIntegers, 0};
constexpr KRule kVector = {kIntegers, 1};

v1::KInput Tensor(DType type, std::string data, int rank) {
  v1::KInput k;
  v1::Tensor& tensor = *k.mutable_tensor();
  tensor.set_data_type(static_cast<v1::DataType>(type));
  for (int i = 0; i < rank; ++i) tensor.add_shape(1);
  tensor.set_data(std::move(data));
  return k;
}

std::string Ones(DType type) {
  return std::string(static_cast<size_t>(InfoOf(type).bytes), '\xff');
}

TEST(ReadK, ReadsEveryIntegerTypeLittleEndian) {
  for (const DType type : kIntegers) {
    if (type == DType::kU1) continue;  // has no 3
    std::string three(static_cast<size_t>(InfoOf(type).bytes), '\0');
    three[0] = 3;
    const auto k = ReadK(Tensor(type, three, 0), kScalar, "k", "x");
    ASSERT_TRUE(k.ok()) << InfoOf(type).name;
    EXPECT_EQ(*k, 3) << InfoOf(type).name;
  }
}

TEST(ReadK, UsesTheSignOfTheType) {
  const std::pair<DType, int64_t> all_ones[] = {
      {DType::kI8, -1},          {DType::kI16, -1}, {DType::kI32, -1},
      {DType::kI64, -1},         {DType::kU8, 255}, {DType::kU16, 65535},
      {DType::kU32, 4294967295}, {DType::kU1, 1},   {DType::kU2, 3},
      {DType::kU3, 7},           {DType::kU4, 15},  {DType::kU6, 63},
      {DType::kI4, -1}};
  for (const auto& [type, expected] : all_ones) {
    const v1::KInput k = Tensor(type, Ones(type), 0);
    EXPECT_EQ(*ReadK(k, kScalar, "k", "x"), expected) << InfoOf(type).name;
  }
  const v1::KInput low = Tensor(DType::kI8, "\x80", 0);
  EXPECT_EQ(*ReadK(low, kScalar, "k", "x"), -128);
  const v1::KInput nibble = Tensor(DType::kI4, "\x78", 0);  // the lower half
  EXPECT_EQ(*ReadK(nibble, kScalar, "k", "x"), -8);
  const v1::KInput bit = Tensor(DType::kU1, "\x80", 0);  // the highest
  EXPECT_EQ(*ReadK(bit, kScalar, "k", "x"), 1);
  const v1::KInput huge = Tensor(DType::kU64, Ones(DType::kU64), 0);
  EXPECT_EQ(ReadK(huge, kScalar, "k", "x").status().reason,
            "K_EXCEEDS_DIMENSION");
}

TEST(ReadK, ReadsAValueUnderAnyRule) {
  v1::KInput k;
  k.set_value(-5);
  EXPECT_EQ(*ReadK(k, kVector, "k", "x"), -5);
  EXPECT_EQ(*ReadK(k, kScalar, "k", "x"), -5);
}

TEST(ReadK, NamesTheFieldAtFault) {
  const auto field = [](const v1::KInput& k, const KRule& rule) {
    const auto result = ReadK(k, rule, "onnx.k", "ONNX");
    return result.ok() ? "" : result.status().field;
  };
  const std::string eight(8, '\0');
  EXPECT_EQ(field(v1::KInput(), kVector), "onnx.k");
  EXPECT_EQ(field(Tensor(DType::kI64, eight, 1), kVector), "");
  EXPECT_EQ(field(Tensor(DType::kI64, eight, 0), kVector),
            "onnx.k.tensor.shape");
  EXPECT_EQ(field(Tensor(DType::kI64, eight, 2), kVector),
            "onnx.k.tensor.shape");
  EXPECT_EQ(field(Tensor(DType::kI64, eight, 1), kScalar),
            "onnx.k.tensor.shape");
  EXPECT_EQ(field(Tensor(DType::kF64, eight, 1), kVector),
            "onnx.k.tensor.data_type");
  EXPECT_EQ(field(Tensor(DType::kI64, eight + eight, 1), kVector),
            "onnx.k.tensor.data");
  EXPECT_EQ(field(Tensor(DType::kI64, "", 1), kVector), "onnx.k.tensor.data");
  v1::KInput zero = Tensor(DType::kI64, "", 1);
  zero.mutable_tensor()->set_shape(0, 0);
  EXPECT_EQ(field(zero, kVector), "onnx.k.tensor.shape");
  v1::KInput strided = Tensor(DType::kI64, eight, 1);
  strided.mutable_tensor()->add_strides(1);
  EXPECT_EQ(field(strided, kVector), "onnx.k.tensor.strides");
  v1::KInput shared = Tensor(DType::kI64, eight, 1);
  shared.mutable_tensor()->mutable_shared_memory()->set_name("/k");
  EXPECT_EQ(field(shared, kVector), "onnx.k.tensor.shared_memory");
}

TEST(ReadK, TruncatesHostileShapesInMessages) {
  v1::KInput k = Tensor(DType::kI64, std::string(8, '\0'), 10000);
  const auto result = ReadK(k, kVector, "onnx.k", "ONNX");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message.find("[1, 1, "), std::string::npos);
  EXPECT_LT(result.status().message.size(), 150u);
}

TEST(CheckDataType, ListsTheAcceptedTypes) {
  constexpr std::array<DType, 2> kAllowed = {DType::kF16, DType::kU8};
  EXPECT_EQ(*CheckDataType(v1::DATA_TYPE_U8, kAllowed, "f", "x"), DType::kU8);
  const Status status =
      CheckDataType(v1::DATA_TYPE_I64, kAllowed, "f", "Some op").status();
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_EQ(status.reason, "DATA_TYPE_NOT_ALLOWED");
  EXPECT_EQ(status.field, "f");
  EXPECT_EQ(status.message,
            "data type i64 is not allowed; Some op allows f16, u8");
  EXPECT_EQ(CheckDataType(0, kAllowed, "f", "x").status().reason,
            "DATA_TYPE_MISSING");
}

TEST(CheckDataType, NamesTheTypeOrItsNumber) {
  const auto message = [](int type) {
    return CheckDataType(type, kIntegers, "tensor", "ONNX").status().message;
  };
  EXPECT_EQ(message(v1::DATA_TYPE_BF16).find("data type bf16 is"), 0u);
  EXPECT_EQ(message(99).find("data type 99 is"), 0u);
}

}  // namespace
}  // namespace topk
