// What `topk` reads and prints.
#include "client/numpy/npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "client/cli/output.h"
#include "core/base/dtype.h"
#include "core/base/text.h"
#include "tests/support/oracle.h"

namespace topk {
namespace {

// Returns the content of a file: magic, version, header, data.
std::string File(int major, std::string header, const std::string& data) {
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(major);
  file += '\0';
  const auto length = static_cast<uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), major == 1 ? 2 : 4);
  return file + header + data;
}

std::string Header(const std::string& descr, const std::string& shape,
                   const char* fortran = "False") {
  return StrCat("{'descr': '", descr, "', 'fortran_order': ", fortran,
                ", 'shape': ", shape, ", }   \n");
}

TEST(Npy, ReadsEveryVersionAndShape) {
  for (const auto& [version, header, data, shape] : std::initializer_list<
           std::tuple<int, std::string, std::string, std::vector<int64_t>>>{
           {1, Header("<i2", "(2,)"), "abcd", {2}},
           {2, Header("|u1", "(2, 3)"), "abcdef", {2, 3}},
           {3, Header("<f8", "()"), "12345678", {}},
           {1, Header("<f8", "(0,3,)"), "", {0, 3}}}) {
    const auto tensor = ParseNpy(File(version, header, data));
    ASSERT_TRUE(tensor.ok()) << header << tensor.status().message;
    EXPECT_EQ(tensor->data(), data) << header;
    EXPECT_TRUE(std::ranges::equal(tensor->shape(), shape)) << header;
  }
}

TEST(Npy, SaysHowToConvertOtherArrays) {
  for (const char* type :
       {"|O", "<c8", "<U4", "|S3", "|b1", "<f16", "<M8", "|V1", ">f4", ">V2"}) {
    const Status status =
        ParseNpy(File(1, Header(type, "(1,)"), "abcd")).status();
    EXPECT_EQ(status.reason, "NPY_DTYPE") << type;
    EXPECT_EQ(status.message.find(StrCat("the element type \"", type)), 0u)
        << status.message;
  }
  EXPECT_EQ(ParseNpy(File(1, Header("<f4", "(1, 1)", "True"), "abcd"))
                .status()
                .message,
            "the array is in Fortran order; save numpy.ascontiguousarray(x) "
            "instead");
}

TEST(Npy, RejectsMalformedFiles) {
  const std::string good = File(1, Header("<f4", "(1,)"), "abcd");
  ASSERT_TRUE(ParseNpy(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {  // truncated anywhere
    EXPECT_FALSE(ParseNpy(good.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseNpy(good + "x").ok());
  EXPECT_FALSE(ParseNpy(File(4, Header("<f4", "(1,)"), "abcd")).ok());
  for (const std::string& header :
       {Header("<f4", "(1,)", "false"), Header("<f4", "(1"),
        Header("<f4", "(-1,)"), Header("<f4", "1,"), Header("<f4", "[1]"),
        Header("<f4", "(,)"), Header("<f4", "(1,,)"), Header("<f4", "(1 1)"),
        Header("<f4", "(99999999999, 99999999999, 99999999999)"),
        Header("<f4", "(99999999999999999999,)"), Header("", "(1,)"),
        Header("<f4", "(1,)") + "x",
        std::string("{'descr': '<f4', 'shape': (1,), }"),
        std::string("{'descr': [('a', '<f4')], 'fortran_order': False, "
                    "'shape': (1,), }"),
        std::string("{'descr': '<f4"), std::string("{"), std::string()}) {
    const Status status = ParseNpy(File(1, header, "abcd")).status();
    EXPECT_EQ(status.reason, "NPY_MALFORMED") << header << status.message;
  }
}

// Tests every code of types of up to 16 bits, and random bits of wider types,
// of the types that .npy files may have.
TEST(ElementText, ReadsBackAsTheSameNumber) {
  std::mt19937_64 random(1);
  for (const DTypeInfo& type : kDTypes) {
    if (type.type > DType::kU64) break;
    const auto of = static_cast<v1::DataType>(type.type);
    const size_t count = type.bits <= 16 ? size_t{1} << type.bits : 1000;
    v1::Tensor tensor;
    tensor.set_data_type(of);
    std::string& data = *tensor.mutable_data();
    data.resize(testing::DataBytes(of, count));
    for (size_t i = 0; i < count; ++i) {
      testing::WriteBits(of, i, type.bits <= 16 ? i : random(), data);
      const std::string text =
          cli::ElementText(tensor, static_cast<int64_t>(i));
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
}

}  // namespace
}  // namespace topk
