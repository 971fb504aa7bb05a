// Sends shards to a real server, each with its index_offset, and merges the
// results.
#include "client/merge.h"

#include <gtest/gtest.h>

#include <vector>

#include "client/topk_client.h"
#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/support/test_server.h"

namespace topk {
namespace {

using testing::DataBytes;
using testing::Random;
using testing::ReadBits;

constexpr size_t kOuter = 3;
constexpr size_t kInner = 4;

v1::TopKRequest Request(v1::DataType type, size_t n, std::string data) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(11);
  request.mutable_openvino()->set_axis(1);
  request.mutable_openvino()->set_index_element_type("i64");
  v1::Tensor& tensor = *request.mutable_tensor();
  tensor.set_data_type(type);
  for (const size_t size : {kOuter, n, kInner}) {
    tensor.add_shape(static_cast<int64_t>(size));
  }
  tensor.set_data(std::move(data));
  return request;
}

// The elements begin .. end - 1 of the middle axis.
v1::TopKRequest Shard(const v1::TopKRequest& whole, size_t begin, size_t end) {
  const v1::Tensor& tensor = whole.tensor();
  const auto n = static_cast<size_t>(tensor.shape(1));
  std::string data(
      DataBytes(tensor.data_type(), kOuter * (end - begin) * kInner), '\0');
  size_t to = 0;
  for (size_t o = 0; o < kOuter; ++o) {
    for (size_t i = begin * kInner; i < end * kInner; ++i) {
      testing::WriteBits(
          tensor.data_type(), to++,
          ReadBits(tensor.data_type(), tensor.data(), o * n * kInner + i),
          data);
    }
  }
  v1::TopKRequest shard =
      Request(tensor.data_type(), end - begin, std::move(data));
  *shard.mutable_openvino() = whole.openvino();
  shard.mutable_openvino()->mutable_k()->set_value(std::min(
      whole.openvino().k().value(), static_cast<int64_t>(end - begin)));
  shard.set_index_offset(static_cast<int64_t>(begin));
  return shard;
}

TEST(Merge, EqualsTheServersResultOverTheWhole) {
  testing::TestServer server;
  const Client client({.target = server.target()});
  Random random(testing::Seed(21));
  constexpr size_t kCount = 300;
  constexpr int64_t kSelected = 40;
  for (const v1::DataType type :
       {v1::DATA_TYPE_F32, v1::DATA_TYPE_U3, v1::DATA_TYPE_F8E5M2}) {
    for (const bool by_index : {false, true}) {
      v1::TopKRequest whole =
          Request(type, kCount,
                  testing::RandomData(random, type, kOuter * kCount * kInner));
      whole.mutable_openvino()->mutable_k()->set_value(kSelected);
      whole.mutable_openvino()->set_mode(by_index ? "min" : "max");
      whole.mutable_openvino()->set_sort(by_index ? "index" : "value");
      const auto expected = client.ComputeTopK(whole);
      ASSERT_TRUE(expected.ok()) << expected.status().message;

      std::vector<PartialAnswer> partials;
      for (const auto& [begin, end] :
           {std::pair(250, 299), {0, 11}, {299, 300}, {11, 250}}) {
        auto response = client.ComputeTopK(
            Shard(whole, static_cast<size_t>(begin), static_cast<size_t>(end)));
        ASSERT_TRUE(response.ok()) << response.status().message;
        partials.push_back(
            {.response = *std::move(response),
             .k = kSelected,
             .axis = -2,
             .direction = by_index ? Direction::kSmallest : Direction::kLargest,
             .order = by_index ? Order::kIndex : Order::kValue});
      }
      const std::span<const PartialAnswer> all = partials;
      std::vector<PartialAnswer> halves;
      for (const auto half : {all.first(2), all.last(2)}) {
        auto merged = Merge(half);
        ASSERT_TRUE(merged.ok()) << merged.status().message;
        halves.push_back(*std::move(merged));
      }
      for (const auto& some : {all, std::span<const PartialAnswer>(halves)}) {
        const auto merged = Merge(some);
        ASSERT_TRUE(merged.ok()) << merged.status().message;
        EXPECT_EQ(merged->response.values().SerializeAsString(),
                  expected->values().SerializeAsString());
        EXPECT_EQ(merged->response.indices().SerializeAsString(),
                  expected->indices().SerializeAsString());
      }
    }
  }
}

TEST(Merge, RejectsMissingAndStridedOutputs) {
  PartialAnswer answer;
  answer.k = 1;
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().field,
            "partials[0].response.values");
  v1::Tensor& values = *answer.response.mutable_values();
  values.set_data_type(v1::DATA_TYPE_U8);
  values.add_shape(1);
  values.set_data("7");
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().reason, "OUTPUT_MISSING");
  v1::Tensor& indices = *answer.response.mutable_indices();
  indices = values;
  indices.set_data_type(v1::DATA_TYPE_U32);
  indices.set_data("\1\0\0\0", 4);
  EXPECT_TRUE(Merge(std::span(&answer, 1)).ok());
  indices.add_shape(1);
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().reason, "SHAPES_DIFFER");
  indices.mutable_shape()->RemoveLast();
  values.add_strides(2);
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().reason, "OUTPUT_STRIDED");
  values.clear_strides();
  values.mutable_shared_memory()->set_name("/topk");
  EXPECT_EQ(Merge(std::span(&answer, 1)).status().reason,
            "OUTPUT_IN_SHARED_MEMORY");
}

}  // namespace
}  // namespace topk
