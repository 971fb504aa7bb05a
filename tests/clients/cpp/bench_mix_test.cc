#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "client/bench/mix.h"

namespace topk::cli {
namespace {

RequestSpec Defaults() {
  RequestSpec defaults;
  defaults.shape = {2, 5};
  defaults.dtype = "u8";
  defaults.operation.k = 3;
  return defaults;
}

Result<std::vector<RequestSpec>> Parse(const std::string& text) {
  std::istringstream in(text);
  return ParseMix(in, "mix", Defaults());
}

TEST(Mix, ReadsEveryKey) {
  const auto kinds =
      Parse(R"({"weight": 3, "shape": [8, 1000], "dtype": "f32", "k": 5, )"
            R"("axis": -1, "smallest": true})"
            "\n\n{}\n");
  ASSERT_TRUE(kinds.ok()) << kinds.status().message;
  ASSERT_EQ(kinds->size(), 2u);
  const RequestSpec& first = kinds->front();
  EXPECT_EQ(first.weight, 3);
  EXPECT_EQ(first.shape, (std::vector<int64_t>{8, 1000}));
  EXPECT_EQ(first.dtype, "f32");
  EXPECT_EQ(first.operation.k, 5);
  EXPECT_EQ(first.operation.axis, -1);
  EXPECT_TRUE(first.operation.smallest);
  EXPECT_EQ(first.Name(), "8x1000 f32 k 5 axis -1 smallest");
  EXPECT_EQ(first.origin, "mix:1: shape");
  const RequestSpec& second = kinds->back();
  EXPECT_EQ(second.weight, 1);
  EXPECT_EQ(second.Name(), "2x5 u8 k 3");
  EXPECT_EQ(second.origin, "mix:3: shape");
}

TEST(Mix, ErrorsNameLineAndKey) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "mix: "},
      {"\n\n", "mix: "},
      {"{", "mix:1: "},
      {"{}\n[1]", "mix:2: "},
      {"{}\n\n{\"K\": 1}", "mix:3: K: "},
      {"{\"weight\": 0}", "mix:1: weight: "},
      {"{\"weight\": -1}", "mix:1: weight: "},
      {"{\"weight\": 1e300}", "mix:1: weight: "},
      {"{\"weight\": \"1\"}", "mix:1: weight: "},
      {"{\"shape\": 5}", "mix:1: shape: "},
      {"{\"shape\": [5, -1]}", "mix:1: shape: "},
      {"{\"shape\": [1.5]}", "mix:1: shape: "},
      {"{\"shape\": [18446744073709551615]}", "mix:1: shape: "},
      {"{\"dtype\": \"f31\"}", "mix:1: dtype: "},
      {"{\"dtype\": 32}", "mix:1: dtype: "},
      {"{\"k\": 1.5}", "mix:1: k: "},
      {"{\"k\": 0}", "mix:1: k: "},
      {"{\"axis\": null}", "mix:1: axis: "},
      {"{\"smallest\": 1}", "mix:1: smallest: "},
  };
  for (const auto& [text, begin] : wrong) {
    const auto kinds = Parse(text);
    ASSERT_FALSE(kinds.ok()) << text;
    EXPECT_EQ(kinds.status().code, Code::kInvalidArgument) << text;
    EXPECT_EQ(kinds.status().message.rfind(begin, 0), 0u)
        << text << ": " << kinds.status().message;
  }
}

}  // namespace
}  // namespace topk::cli
