// Merging shards in any grouping and order gives the result of the whole axis.
#include "topk/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Parts = std::vector<PartialResponse>;

v1::Tensor& Values(PartialResponse& part) {
  return *part.response.mutable_values();
}
v1::Tensor& Indices(PartialResponse& part) {
  return *part.response.mutable_indices();
}

void Set(DType type, const std::vector<int64_t>& shape, std::string data,
         v1::Tensor& tensor) {
  tensor.set_data_type(static_cast<v1::DataType>(type));
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  tensor.set_data(std::move(data));
}

// Returns elements begin .. end - 1 along the axis.
std::string Shard(const Plan& whole, const std::string& tensor, int64_t begin,
                  int64_t end) {
  const auto type = static_cast<int>(whole.dtype);
  const int64_t count = whole.outer * (end - begin) * whole.inner;
  std::string shard(DataBytes(type, static_cast<size_t>(count)), '\0');
  size_t to = 0;
  for (int64_t o = 0; o < whole.outer; ++o) {
    for (int64_t i = begin * whole.inner; i < end * whole.inner; ++i) {
      const int64_t from = o * whole.n * whole.inner + i;
      WriteBits(type, to++, ReadBits(type, tensor, static_cast<size_t>(from)),
                shard);
    }
  }
  return shard;
}

// Returns the result of shard begin .. end - 1, which may have fewer than k
// elements.
PartialResponse Compute(const PlanRequest& asked, int64_t k,
                        const std::string& shard, int64_t begin, int64_t end) {
  PlanRequest request = asked;
  request.shape[static_cast<size_t>(request.axis)] = end - begin;
  request.k = std::min(k, end - begin);
  request.index_offset += begin;
  const Plan plan = ValidPlan(request);
  Answer answer = SlowAnswer(plan, shard);
  PartialResponse part = {.response = {},
                          .k = k,
                          .size = end - begin,
                          .axis = plan.axis,
                          .direction = plan.direction,
                          .order = plan.order};
  Set(plan.dtype, plan.output_shape(), std::move(answer.values), Values(part));
  Set(plan.index_type, plan.output_shape(), std::move(answer.indices),
      Indices(part));
  return part;
}

// Merges randomly chosen parts until one is left.
PartialResponse MergeSomehow(Parts parts, Random& random) {
  do {
    std::shuffle(parts.begin(), parts.end(), random);
    const auto some = static_cast<ptrdiff_t>(Pick(
        random, parts.size() > 1 ? 2 : 1, static_cast<int64_t>(parts.size())));
    const auto merged = Merge(Parts(parts.end() - some, parts.end()));
    EXPECT_TRUE(merged.ok()) << merged.status().message;
    if (!merged.ok()) return parts[0];
    parts.erase(parts.end() - some, parts.end());
    parts.push_back(*merged);
  } while (parts.size() > 1);
  return parts[0];
}

class Merging : public ::testing::TestWithParam<DTypeInfo> {};

TEST_P(Merging, HasTheBytesOfTheWholeForAnySharding) {
  Random random(Seed(20));
  for (int round = 0; round < 120; ++round) {
    std::vector<int64_t> shape(static_cast<size_t>(Pick(random, 1, 3)));
    for (int64_t& size : shape) size = Pick(random, 1, 5);
    const int64_t axis =
        Pick(random, 0, static_cast<int64_t>(shape.size()) - 1);
    const int64_t n = Pick(random, 1, round % 3 == 0 ? 6 : 60);
    shape[static_cast<size_t>(axis)] = n;
    const int64_t k = Pick(random, 1, round % 4 == 0 ? n + 5 : n);
    PlanRequest request =
        Ask(GetParam().type, std::move(shape), axis, std::min(k, n));
    request.direction =
        round % 2 == 0 ? Direction::kLargest : Direction::kSmallest;
    request.order = random() % 2 == 0 ? Order::kValue : Order::kIndex;
    request.index_type = std::array{DType::kI32, DType::kI64, DType::kU32,
                                    DType::kU64}[random() % 4];
    // The last index may be the largest value of its type.
    request.index_offset =
        random() % 2 == 0 ? 0 : MaxIndex(request.index_type) - n + 1;
    const Plan whole = ValidPlan(request);
    const std::string tensor = RandomData(
        random, static_cast<v1::DataType>(whole.dtype), whole.slices() * n);
    const Answer expected = SlowAnswer(whole, tensor);

    Parts parts;
    const int64_t longest = round % 5 == 0 ? 1 : Pick(random, 1, n);
    for (int64_t begin = 0, end = 0; begin < n; begin = end) {
      end = std::min(n, begin + Pick(random, 1, longest));
      parts.push_back(
          Compute(request, k, Shard(whole, tensor, begin, end), begin, end));
    }
    for (int grouping = 0; grouping < 3; ++grouping) {
      const v1::TopKResponse merged = MergeSomehow(parts, random).response;
      ASSERT_THAT(merged.values().shape(),
                  ElementsAreArray(whole.output_shape()))
          << round;
      ASSERT_EQ(merged.values().data(), expected.values) << round;
      ASSERT_EQ(merged.indices().data(), expected.indices) << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Merging, ::testing::ValuesIn(kDTypes),
                         [](const auto& param) {
                           return std::string(param.param.name);
                         });

// Returns a partial of two slices of i8 with i32 indices.
PartialResponse Given(int64_t k, const std::vector<int8_t>& values,
                      const std::vector<int32_t>& indices) {
  const std::vector<int64_t> shape = {2,
                                      static_cast<int64_t>(values.size() / 2)};
  PartialResponse part;
  part.k = k;
  Set(DType::kI8, shape, std::string(values.begin(), values.end()),
      Values(part));
  Set(DType::kI32, shape,
      std::string(reinterpret_cast<const char*>(indices.data()),
                  indices.size() * sizeof(int32_t)),
      Indices(part));
  return part;
}

PartialResponse First() { return Given(2, {9, 7, 5, 5}, {0, 2, 0, 1}); }
PartialResponse Second() { return Given(2, {8, 7, 5, 4}, {4, 3, 3, 4}); }

void SetIndices(PartialResponse& part, const std::vector<int32_t>& indices) {
  Indices(part).set_data(Given(2, {}, indices).response.indices().data());
}

TEST(Merge, IgnoresEmptyShards) {
  const auto merged = Merge(Parts{Given(2, {}, {}), First(), Given(2, {}, {})});
  ASSERT_TRUE(merged.ok()) << merged.status().message;
  EXPECT_EQ(merged->response.SerializeAsString(),
            First().response.SerializeAsString());
  EXPECT_THAT(Merge(Parts{Given(2, {}, {})})->response.values().shape(),
              ElementsAre(2, 0));
}

TEST(Merge, MergesTensorsWithoutSlices) {
  PartialResponse part = First();
  Set(DType::kI8, {0, 2}, "", Values(part));
  Set(DType::kI32, {0, 2}, "", Indices(part));
  const auto merged = Merge(Parts{part, part});
  ASSERT_TRUE(merged.ok()) << merged.status().message;
  EXPECT_THAT(merged->response.values().shape(), ElementsAre(0, 2));
  EXPECT_EQ(merged->response.values().data(), "");
}

using Change = std::function<void(PartialResponse&)>;

void SetShape(PartialResponse& part, const std::vector<int64_t>& shape) {
  Values(part).mutable_shape()->Assign(shape.begin(), shape.end());
  Indices(part).mutable_shape()->Assign(shape.begin(), shape.end());
}

TEST(Merge, NamesWhatDiffers) {
  struct Difference {
    Change make;
    std::string field;
    const char* rest;
  };
  using P = PartialResponse;
  const Difference differences[] = {
      {[](P& p) {
         p.k = 3;
         p.size = 2;
       },
       "k", "3 differs from 2 in the first partial"},
      {[](P& p) { Values(p).set_data_type(v1::DATA_TYPE_U8); },
       "response.values.data_type", "u8 differs from i8"},
      {[](P& p) { p.axis = 0; }, "axis", "0 differs from 1"},
      {[](P& p) { p.direction = Direction::kSmallest; }, "direction",
       "smallest differs from largest"},
      {[](P& p) { p.order = Order::kIndex; }, "order",
       "by index differs from by value"},
      {[](P& p) { Indices(p).set_data_type(v1::DATA_TYPE_U32); },
       "response.indices.data_type", "u32 differs from i32"},
      {[](P& p) {
         p.axis = 1;
         SetShape(p, {2, 2, 1});
       },
       "response.values.shape", "3 dimensions differs from 2 dimensions"},
      {[](P& p) {
         p = Given(2, {}, {});
         SetShape(p, {1, 0});
       },
       "response.values.shape[0]", "1 differs from 2"},
  };
  for (const auto& [make, field, rest] : differences) {
    PartialResponse second = Second();
    make(second);
    const Status status = Merge(Parts{First(), second}).status();
    EXPECT_EQ(status.reason, "PARTIALS_DIFFER");
    EXPECT_EQ(status.field, "partials[1]." + field);
    EXPECT_THAT(status.message, HasSubstr(field + " = " + rest));
  }
}

TEST(Merge, RejectsInvalidPartials) {
  struct Mistake {
    Change make;
    const char* reason;
    const char* field;
    const char* message = "";
  };
  using P = PartialResponse;
  const Mistake mistakes[] = {
      {[](P& p) { p.response.clear_values(); }, "OUTPUT_MISSING",
       "[1].response.values"},
      {[](P& p) { p.response.clear_indices(); }, "OUTPUT_MISSING",
       "[1].response.indices"},
      {[](P& p) { Values(p).add_strides(2); }, "OUTPUT_STRIDED",
       "[1].response.values"},
      {[](P& p) { Values(p).mutable_shared_memory()->set_name("/topk"); },
       "OUTPUT_IN_SHARED_MEMORY", "[1].response.values"},
      {[](P& p) {
         Values(p).set_shape(0, 1);
         Values(p).set_data("12");
       },
       "SHAPES_DIFFER", "[1].response.indices.shape"},
      {[](P& p) { p.k = 0; }, "K_NOT_POSITIVE", "[1].k"},
      {[](P& p) { p.axis = 2; }, "AXIS_RANGE", "[1].axis"},
      {[](P& p) {
         Set(DType::kI8, {2, 2}, "1234", Indices(p));
       },
       "INDEX_TYPE", "[1].response.indices.data_type",
       "the indices are i8; they must be i32"},
      {[](P& p) {
         p = Given(2, {8, 7, 6, 5, 4, 3}, {3, 4, 5, 3, 4, 5});
       },
       "MORE_THAN_K", "[1].response.values.shape[1]",
       "axis 1 has 3 elements, more than k = 2"},
      {[](P& p) {
         p.k = 3;
         p.size = 4;
       },
       "FEWER_THAN_K", "[1].response.values.shape[1]",
       "axis 1 has 2 elements, fewer than k = 3, which must be all of the "
       "shard, but size = 4"},
      {[](P& p) { Values(p).set_shape(1, -1); }, "NEGATIVE_DIMENSION",
       "[1].response.values.shape[1]", "size -1"},
      {[](P& p) { Values(p).mutable_data()->pop_back(); }, "DATA_LENGTH",
       "[1].response.values.data",
       "3 bytes of data; shape and type (i8) imply 4"},
      {[](P& p) { *Indices(p).mutable_data() += "    "; }, "DATA_LENGTH",
       "[1].response.indices.data",
       "20 bytes of data; shape and type (i32) imply 16"},
      {[](P& p) {
         SetIndices(p, {4, -3, 3, 4});
       },
       "INDEX_RANGE", "[1].response.indices",
       "index -3 (as a signed number) is outside 0 .. 2147483647"},
      {[](P& p) { Values(p).set_data("\x0a\x14\x05\x04"); }, "NOT_IN_ORDER",
       "[1].response.values",
       "slice 0 is not sorted: element 1 must not follow"},
      {[](P& p) {
         Values(p).set_data("\x08\x08\x05\x04");
         SetIndices(p, {3, 3, 3, 4});
       },
       "NOT_IN_ORDER", "[1].response.values",
       "element 1 must not follow element 0"},
      {[](P& p) { p = First(); }, "SHARDS_OVERLAP", "",
       "index 0 occurs twice in slice 0"},
      // The shard has no offset.
      {[](P& p) {
         SetIndices(p, {5, 6, 0, 1});
         Values(p).set_data("\x08\x07\x06\x04");
       },
       "SHARDS_OVERLAP", "", "index 0 occurs twice in slice 1"},
      // One shard has an index twice.
      {[](P& p) {
         SetIndices(p, {3, 3, 3, 4});
         Values(p).set_data("\x0b\x0a\x05\x04");
       },
       "SHARDS_OVERLAP", "", "index 3 occurs twice in slice 0"},
  };
  for (const Mistake& mistake : mistakes) {
    PartialResponse second = Second();
    mistake.make(second);
    const Status status = Merge(Parts{First(), second}).status();
    EXPECT_EQ(status.code, Code::kInvalidArgument);
    EXPECT_EQ(status.reason, mistake.reason);
    EXPECT_EQ(status.field, std::string("partials") + mistake.field);
    EXPECT_THAT(status.message, HasSubstr(mistake.message));
  }
  EXPECT_EQ(Merge({}).status().reason, "NO_PARTIALS");
}

TEST(Merge, RejectsRepeatedIndices) {
  PartialResponse first = First();
  PartialResponse second = Second();
  first.order = second.order = Order::kIndex;
  ASSERT_TRUE(Merge(Parts{first, second}).ok());
  SetIndices(second, {0, 3, 3, 4});
  EXPECT_EQ(Merge(Parts{first, second}).status().reason, "SHARDS_OVERLAP");
}

}  // namespace
}  // namespace topk::testing
