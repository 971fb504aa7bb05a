#include "client/numpy/npy_header.h"

#include <gtest/gtest.h>

#include "core/base/text.h"

namespace topk {
namespace {

Result<NpyHeader> Reparse(const std::string& file) {
  return ParseNpyHeader(std::as_bytes(std::span(file)));
}

std::string WithShape(std::string_view shape) {
  const std::string header = StrCat(
      "{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, ", }\n");
  return StrCat(std::string_view("\x93NUMPY\x01\0", 8),
                std::string(1, static_cast<char>(header.size())),
                std::string(1, '\0'), header);
}

TEST(NpyHeader, ReadsShapesLikePython) {
  for (const char* shape : {"()", "(3,)", "(3, )", "(3, 4)", "(3,4,)"}) {
    EXPECT_TRUE(Reparse(WithShape(shape)).ok()) << shape;
  }
  // In Python, these are numbers, lists or syntax errors.
  for (const char* shape :
       {"(3)", "(,)", "(3,,)", "(3 4)", "3,", "(3,", "[3]"}) {
    EXPECT_FALSE(Reparse(WithShape(shape)).ok()) << shape;
  }
}

TEST(NpyFileStart, EqualsNumPys) {
  const std::pair<std::vector<int64_t>, const char*> shapes[] = {
      {{}, "()"}, {{3}, "(3,)"}, {{0, 5}, "(0, 5)"}, {{1, 2, 3}, "(1, 2, 3)"}};
  for (const auto& [shape, text] : shapes) {
    const std::string start = NpyFileStart("<f4", shape);
    EXPECT_EQ(start.size() % 64, 0u);
    EXPECT_EQ(start.back(), '\n');
    EXPECT_EQ(start.find(StrCat("{'descr': '<f4', 'fortran_order': False, "
                                "'shape': ",
                                text, ", }")),
              10u)
        << start;
    const Result<NpyHeader> header = Reparse(start);
    ASSERT_TRUE(header.ok()) << header.status().message;
    EXPECT_EQ(header->shape, shape);
    EXPECT_EQ(header->data_offset, start.size());
  }
}

TEST(NpyFileStart, HasAMultipleOf64Bytes) {
  for (size_t rank = 0; rank <= 32; ++rank) {
    const std::vector<int64_t> shape(rank, 1);
    EXPECT_EQ(NpyFileStart("<f4", shape).size() % 64, 0u) << rank;
  }
}

}  // namespace
}  // namespace topk
