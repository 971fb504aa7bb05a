// Tests of tables and texts that fit a terminal.
#include "client/cli/terminal.h"

#include <gtest/gtest.h>

#include <sstream>

#include "client/cli/output.h"

namespace topk::cli {
namespace {

v1::TopKResponse Ascending(int64_t slices, int64_t k) {
  v1::TopKResponse answer;
  for (v1::Tensor* tensor :
       {answer.mutable_values(), answer.mutable_indices()}) {
    tensor->set_data_type(v1::DATA_TYPE_I64);
    tensor->add_shape(slices);
    tensor->add_shape(k);
    for (int64_t i = 0; i < slices * k; ++i) {
      tensor->mutable_data()->append(reinterpret_cast<const char*>(&i),
                                     sizeof(i));
    }
  }
  return answer;
}

std::string Table(int columns, const Labels& labels = {}) {
  std::ostringstream out;
  PrintTable(Ascending(2, 5), 1, labels, {1, columns}, out);
  return out.str();
}

TEST(Table, WrapsAtTheTerminalsWidth) {
  const std::string last =
      "... and 1 more slices; --max-slices shows more, --json and --out all\n";
  EXPECT_EQ(Table(0), "[0, :]  0 @0  1 @1  2 @2  3 @3  4 @4\n" + last);
  EXPECT_EQ(Table(80), Table(0));
  EXPECT_EQ(Table(24),
            "[0, :]  0 @0  1 @1  2 @2\n"
            "        3 @3  4 @4\n"
            "... and 1 more slices;\n"
            "--max-slices shows more,\n"
            "--json and --out all\n");
  // Narrower than any cell: one cell per line.
  EXPECT_EQ(Table(1).substr(0, 36), "[0, :]  0 @0\n        1 @1\n        2 ");
}

TEST(Table, WrapsLabels) {
  EXPECT_EQ(Table(20, {{"10", "11", "12", "13", "14"}, {}}).substr(0, 51),
            "[0, :]  -> 10 11 12\n       13 14  0 @0\n        1 @1");
}

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_EQ(Wrapped("one two three", 0, 2), "one two three");
  EXPECT_EQ(Wrapped("one two three", 13, 0), "one two three");
  EXPECT_EQ(Wrapped("one two three", 12, 0), "one two\nthree");
  EXPECT_EQ(Wrapped("one two three", 7, 2), "one\n  two\n  three");
  EXPECT_EQ(Wrapped("unbreakable", 4, 0), "unbreakable");
  EXPECT_EQ(Wrapped("unbreakable word", 4, 0), "unbreakable\nword");
  EXPECT_EQ(Wrapped("", 4, 8), "");
}

}  // namespace
}  // namespace topk::cli
