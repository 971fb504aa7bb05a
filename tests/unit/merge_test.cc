// Merging shards in any grouping and order gives the result of the whole axis.
#include "core/merge/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

using ::testing::HasSubstr;

// A partial that owns its bytes.
struct Part {
  Partial partial;
  std::string values;
  std::string indices;

  Partial View() const {
    Partial view = partial;
    view.values = std::as_bytes(std::span(values));
    view.indices = std::as_bytes(std::span(indices));
    return view;
  }
};

Result<Part> Merge(const std::vector<Part>& parts) {
  std::vector<Partial> views;
  for (const Part& part : parts) views.push_back(part.View());
  Result<Merged> merged = MergePartials(views);
  if (!merged.ok()) return merged.status();
  Part part = parts.at(0);
  part.partial.shape = std::move(merged->shape);
  part.values = std::move(merged->values);
  part.indices = std::move(merged->indices);
  return part;
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
Part Compute(const PlanRequest& asked, int64_t k, const std::string& shard,
             int64_t begin, int64_t end) {
  PlanRequest request = asked;
  request.shape[static_cast<size_t>(request.axis)] = end - begin;
  request.k = std::min(k, end - begin);
  request.index_offset += begin;
  const Plan plan = ValidPlan(request);
  Answer answer = SlowAnswer(plan, shard);
  return {{.dtype = plan.dtype,
           .shape = plan.output_shape(),
           .axis = plan.axis,
           .k = k,
           .direction = plan.direction,
           .order = plan.order,
           .index_type = plan.index_type,
           .values = {},
           .indices = {}},
          std::move(answer.values),
          std::move(answer.indices)};
}

// Merges randomly chosen parts until one is left.
Part MergeSomehow(std::vector<Part> parts, Random& random) {
  do {
    std::shuffle(parts.begin(), parts.end(), random);
    const auto some = static_cast<ptrdiff_t>(Pick(
        random, parts.size() > 1 ? 2 : 1, static_cast<int64_t>(parts.size())));
    Result<Part> merged = Merge({parts.end() - some, parts.end()});
    EXPECT_TRUE(merged.ok()) << merged.status().message;
    if (!merged.ok()) return parts[0];
    parts.erase(parts.end() - some, parts.end());
    parts.push_back(*std::move(merged));
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

    std::vector<Part> parts;
    const int64_t longest = round % 5 == 0 ? 1 : Pick(random, 1, n);
    for (int64_t begin = 0, end = 0; begin < n; begin = end) {
      end = std::min(n, begin + Pick(random, 1, longest));
      parts.push_back(
          Compute(request, k, Shard(whole, tensor, begin, end), begin, end));
    }
    for (int grouping = 0; grouping < 3; ++grouping) {
      const Part merged = MergeSomehow(parts, random);
      ASSERT_EQ(merged.partial.shape, whole.output_shape()) << round;
      ASSERT_EQ(merged.values, expected.values) << round;
      ASSERT_EQ(merged.indices, expected.indices) << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Merging, ::testing::ValuesIn(kDTypes),
                         [](const auto& param) {
                           return std::string(param.param.name);
                         });

// Returns a partial of two slices of i8 with i32 indices.
Part Given(int64_t k, const std::vector<int8_t>& values,
           const std::vector<int32_t>& indices) {
  const auto own = static_cast<int64_t>(values.size() / 2);
  return {{.dtype = DType::kI8,
           .shape = {2, own},
           .axis = 1,
           .k = k,
           .direction = Direction::kLargest,
           .order = Order::kValue,
           .index_type = DType::kI32,
           .values = {},
           .indices = {}},
          std::string(values.begin(), values.end()),
          std::string(reinterpret_cast<const char*>(indices.data()),
                      indices.size() * sizeof(int32_t))};
}

Part First() { return Given(2, {9, 7, 5, 5}, {0, 2, 0, 1}); }
Part Second() { return Given(2, {8, 7, 5, 4}, {4, 3, 3, 4}); }

TEST(MergePartials, IgnoresEmptyShards) {
  const auto merged = Merge({Given(2, {}, {}), First(), Given(2, {}, {})});
  ASSERT_TRUE(merged.ok()) << merged.status().message;
  EXPECT_EQ(merged->values, First().values);
  EXPECT_EQ(merged->indices, First().indices);
  EXPECT_EQ(Merge({Given(2, {}, {})})->partial.shape,
            (std::vector<int64_t>{2, 0}));
}

TEST(MergePartials, MergesTensorsWithoutSlices) {
  Part part = First();
  part.partial.shape = {0, 2};
  part.values = part.indices = "";
  const auto merged = Merge({part, part});
  ASSERT_TRUE(merged.ok()) << merged.status().message;
  EXPECT_EQ(merged->partial.shape, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(merged->values, "");
}

void SetIndices(Part& part, std::vector<int32_t> indices) {
  part.indices = Given(2, {}, indices).indices;
}

TEST(MergePartials, NamesWhatDiffers) {
  struct Difference {
    std::function<void(Partial&)> make;
    std::string field;
    const char* rest;
  };
  const Difference differences[] = {
      {[](Partial& p) { p.k = 3; }, "k", "3 differs from 2 in partials[0]"},
      {[](Partial& p) { p.dtype = DType::kU8; }, "dtype", "u8 differs from i8"},
      {[](Partial& p) { p.axis = 0; }, "axis", "0 differs from 1"},
      {[](Partial& p) { p.direction = Direction::kSmallest; }, "direction",
       "smallest differs from largest"},
      {[](Partial& p) { p.order = Order::kIndex; }, "order",
       "by index differs from by value"},
      {[](Partial& p) { p.index_type = DType::kU32; }, "index_type",
       "u32 differs from i32"},
      {[](Partial& p) { p.shape.push_back(1); }, "rank", "3 differs from 2"},
      {[](Partial& p) { p.shape[0] = 1; }, "shape[0]", "1 differs from 2"},
  };
  for (const auto& [make, field, rest] : differences) {
    Part second = Second();
    make(second.partial);
    const Status status = Merge({First(), second}).status();
    EXPECT_EQ(status.reason, "PARTIALS_DIFFER");
    EXPECT_EQ(status.field, "partials[1]." + field);
    EXPECT_THAT(status.message, HasSubstr(field + " = " + rest));
  }
}

TEST(MergePartials, RejectsInvalidPartials) {
  struct Mistake {
    std::function<void(Part&)> make;
    const char* reason;
    const char* field;
    const char* message;
  };
  const Mistake mistakes[] = {
      {[](Part& p) {
         p = Given(2, {8, 7, 6, 5, 4, 3}, {3, 4, 5, 3, 4, 5});
       },
       "MORE_THAN_K", "[1].shape[1]", "axis 1 has 3 elements, more than k = 2"},
      {[](Part& p) { p.partial.shape[1] = -1; }, "NEGATIVE_DIMENSION",
       "[1].shape[1]", "size -1"},
      {[](Part& p) { p.values.pop_back(); }, "DATA_LENGTH", "[1].values",
       "3 bytes of data; shape and type (i8) imply 4"},
      {[](Part& p) { p.indices += "    "; }, "DATA_LENGTH", "[1].indices",
       "20 bytes of data; shape and type (i32) imply 16"},
      {[](Part& p) {
         SetIndices(p, {4, -3, 3, 4});
       },
       "INDEX_RANGE", "[1].indices",
       "index -3 (as a signed number) is outside 0 .. 2147483647"},
      {[](Part& p) { p.values = "\x0a\x14\x05\x04"; }, "NOT_IN_ORDER",
       "[1].values", "slice 0 is not sorted: element 1 must not follow"},
      {[](Part& p) {
         p.values[1] = p.values[0];
         SetIndices(p, {3, 3, 3, 4});
       },
       "NOT_IN_ORDER", "[1].values", "element 1 must not follow element 0"},
      {[](Part& p) { p = First(); }, "SHARDS_OVERLAP", "",
       "index 0 occurs twice in slice 0"},
      // The shard has no offset.
      {[](Part& p) {
         SetIndices(p, {5, 6, 0, 1});
         p.values[2] = 6;
       },
       "SHARDS_OVERLAP", "", "index 0 occurs twice in slice 1"},
      // One shard has an index twice.
      {[](Part& p) {
         SetIndices(p, {3, 3, 3, 4});
         p.values[1] = 10;
         p.values[0] = 11;
       },
       "SHARDS_OVERLAP", "", "index 3 occurs twice in slice 0"},
  };
  for (const Mistake& mistake : mistakes) {
    Part second = Second();
    mistake.make(second);
    const Status status = Merge({First(), second}).status();
    EXPECT_EQ(status.code, Code::kInvalidArgument);
    EXPECT_EQ(status.reason, mistake.reason);
    EXPECT_EQ(status.field, std::string("partials") + mistake.field);
    EXPECT_THAT(status.message, HasSubstr(mistake.message));
  }
}

TEST(MergePartials, RejectsRepeatedIndices) {
  Part first = First();
  Part second = Second();
  first.partial.order = second.partial.order = Order::kIndex;
  ASSERT_TRUE(Merge({first, second}).ok());
  SetIndices(second, {0, 3, 3, 4});
  EXPECT_EQ(Merge({first, second}).status().reason, "SHARDS_OVERLAP");
}

TEST(MergePartials, RejectsFaultsOfAllShards) {
  EXPECT_EQ(MergePartials({}).status().reason, "NO_PARTIALS");
  Part part = First();
  part.partial.k = 0;
  EXPECT_EQ(Merge({part}).status().reason, "K_NOT_POSITIVE");
  part = First();
  part.partial.axis = 2;
  EXPECT_EQ(Merge({part}).status().reason, "AXIS_RANGE");
  part = First();
  part.partial.index_type = DType::kI8;
  EXPECT_EQ(Merge({part}).status().reason, "INDEX_TYPE");
}

}  // namespace
}  // namespace topk::testing
