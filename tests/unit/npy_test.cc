#include "client/numpy/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/text.h"

using namespace std::string_literals;  // "..."s keeps zeros

namespace topk {
namespace {

// Returns the contents of a file: magic, version, header, data.
std::string File(int major, std::string header, const std::string& data) {
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(major);
  file += '\0';
  const auto length = static_cast<uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), major == 1 ? 2 : 4);
  return file + header + data;
}

std::string Header(const std::string& descr, const char* fortran,
                   const std::string& shape) {
  return StrCat("{'descr': '", descr, "', 'fortran_order': ", fortran,
                ", 'shape': ", shape, ", }   \n");
}

Result<NpyArray> Parse(const std::string& file,
                       std::optional<DType> as = std::nullopt) {
  return ParseNpy(std::as_bytes(std::span(file)), nullptr, as);
}

std::string Data(const NpyArray& array) {
  return {reinterpret_cast<const char*>(array.data.data()), array.data.size()};
}

TEST(Npy, ReadsEveryVersionShapeAndOrder) {
  struct Row {
    int version;
    std::string header;
    std::string data;
    std::string expected;
    std::vector<int64_t> shape;
  };
  for (const Row& row : {
           Row{1, Header("<i2", "False", "(2,)"), "abcd", "abcd", {2}},
           Row{2, Header(">i2", "False", "(2, )"), "abcd", "badc", {2}},
           Row{3, Header("|u1", "True", "(2, 3)"), "adbecf", "abcdef", {2, 3}},
           Row{1, Header("<f8", "False", "()"), "12345678", "12345678", {}},
           Row{1, Header("<f8", "True", "(0,3,)"), "", "", {0, 3}},
           // NumPy on Python 2 for Windows wrote such shapes.
           Row{1, Header("<i2", "False", "(1L, 2L)"), "abcd", "abcd", {1, 2}},
       }) {
    const std::string file = File(row.version, row.header, row.data);
    const auto array = Parse(file);
    ASSERT_TRUE(array.ok()) << row.header << array.status().message;
    EXPECT_EQ(Data(*array), row.expected) << row.header;
    EXPECT_EQ(array->shape, row.shape) << row.header;
  }
}

TEST(Npy, ReadsBFloat16OnRequest) {
  const std::string file = File(1, Header("|V2", "False", "(1,)"), "ab");
  EXPECT_EQ(Parse(file).status().reason, "NPY_DTYPE");
  const auto array = Parse(file, DType::kBF16);
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->dtype, DType::kBF16);
  EXPECT_FALSE(
      Parse(File(1, Header("<f4", "False", "(1,)"), "abcd"), DType::kBF16)
          .ok());
}

TEST(Npy, ReportsUnknownTypes) {
  for (const char* type : {"|O", "<c8", "<U4", "|S3", "|b1", "<f16", "<M8"}) {
    const auto array = Parse(File(1, Header(type, "False", "(1,)"), "abcd"));
    ASSERT_FALSE(array.ok()) << type;
    EXPECT_NE(array.status().message.find(type + 1), std::string::npos)
        << array.status().message;
  }
}

TEST(Npy, RejectsMalformedFiles) {
  const std::string good = File(1, Header("<f4", "False", "(1,)"), "abcd");
  ASSERT_TRUE(Parse(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {  // truncated anywhere
    EXPECT_FALSE(Parse(good.substr(0, size)).ok()) << size;
  }
  for (const std::string& header : {
           Header("<f4", "false", "(1,)"),
           Header("<f4", "False", "(1"),
           Header("<f4", "False", "(-1,)"),
           // In Python, these are numbers, lists or syntax errors.
           Header("<f4", "False", "1"),
           Header("<f4", "False", "(1)"),
           Header("<f4", "False", "1,"),
           Header("<f4", "False", "[1]"),
           Header("<f4", "False", "(,)"),
           Header("<f4", "False", "(1,,)"),
           Header("<f4", "False", "(1 1)"),
           Header("=f4", "False", "(1,)"),
           Header("<f4", "False", "(99999999999, 99999999999, 99999999999)"),
           Header("<f4", "False", "(99999999999999999999,)"),
           std::string("{'descr': '<f4', 'shape': (1,)}"),
           std::string("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}"),
           std::string("{'descr': [('a', '<f4')], 'fortran_order': False, "
                       "'shape': (1,)}"),
           std::string("{'descr': '<f4', 'fortran_order': False, 'shape': "
                       "(1,), 'x': 1}"),
           std::string("{'descr': '<f4', 'fortran_order': False, 'shape': "
                       "(1,)} x"),
           Header("<f4", "False", "(1,)") + std::string(20000, ' '),
           std::string("["),
           std::string(),
           std::string("{"),
       }) {
    EXPECT_FALSE(Parse(File(1, header, "abcd")).ok()) << header;
  }
  EXPECT_FALSE(Parse(good + "x").ok());
  EXPECT_FALSE(Parse(File(4, Header("<f4", "False", "(1,)"), "abcd")).ok());
}

TEST(Npy, ReadsWrittenFiles) {
  const std::string path =
      StrCat(std::filesystem::temp_directory_path().string(), "/topk-npy-test-",
             getpid(), ".npy");
  for (const DTypeInfo& type : kDTypes) {
    const std::vector<int64_t> shape = {2, 3};
    std::string data;
    int64_t bytes = 0;
    ASSERT_TRUE(CheckedBytes(type, 6, &bytes));
    for (int i = 0; i < bytes; ++i) data += static_cast<char>(0xA7 * i);
    if (bytes * 8 > 6 * type.bits) {  // clear the unused bits
      data.back() = static_cast<char>(type.bits == 1 ? 0xA4 : 0x03);
    }
    ASSERT_TRUE(WriteFile(path, NpyBytes(type.type, shape, data)).ok());
    const auto array =
        HasNpyName(type) ? ReadNpy(path, {}) : ReadNpy(path, type.type);
    ASSERT_TRUE(array.ok()) << array.status().message;
    EXPECT_EQ(array->dtype, type.type);
    EXPECT_EQ(array->shape, shape);
    EXPECT_EQ(Data(*array), data);
    const auto size = std::filesystem::file_size(path);
    EXPECT_EQ((size - static_cast<size_t>(6 * type.bytes)) % 64, 0u);
  }
  std::filesystem::remove(path);
}

// ml_dtypes writes one byte per element and sign-extends i4.
TEST(Npy, PacksElementsOfLessThanAByte) {
  const auto i4 = Parse(File(1, Header("|V1", "False", "(3,)"), "\xF8\x07\xFF"),
                        DType::kI4);
  ASSERT_TRUE(i4.ok()) << i4.status().message;
  EXPECT_EQ(i4->shape, std::vector<int64_t>{3});
  EXPECT_EQ(Data(*i4), "\x78\x0F");
  const auto u1 = Parse(
      File(1, Header("|u1", "True", "(2, 2)"), std::string("\0\0\1\1", 4)),
      DType::kU1);
  ASSERT_TRUE(u1.ok()) << u1.status().message;
  EXPECT_EQ(Data(*u1), "\x50");  // in row-major order
  for (const auto& [type, byte] :
       {std::pair(DType::kU4, "\x10"), std::pair(DType::kU4, "\xF8"),
        std::pair(DType::kI4, "\x18"), std::pair(DType::kF4E2M1, "\x80")}) {
    EXPECT_EQ(Parse(File(1, Header("|u1", "False", "(1,)"), byte), type)
                  .status()
                  .reason,
              "NPY_VALUE");
  }
  EXPECT_EQ(Parse(File(1, Header("<u2", "False", "(1,)"), "ab"), DType::kU4)
                .status()
                .reason,
            "NPY_DTYPE");
}

}  // namespace
}  // namespace topk
