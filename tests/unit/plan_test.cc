#include "core/plan/plan.h"

#include <gtest/gtest.h>

namespace topk {
namespace {

PlanRequest CubeRequest() {
  PlanRequest request;
  request.attributes = "x";
  request.shape = {2, 3, 4};
  request.axis = 1;
  request.k = 2;
  return request;
}

TEST(MakePlan, SplitsTheShapeAtTheAxis) {
  const auto plan = MakePlan(CubeRequest(), Limits());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->outer, 2);
  EXPECT_EQ(plan->n, 3);
  EXPECT_EQ(plan->inner, 4);
  EXPECT_EQ(plan->slices(), 8);
  EXPECT_EQ(plan->output_shape(), (std::vector<int64_t>{2, 2, 4}));
  EXPECT_EQ(plan->input.bytes, 96);
  EXPECT_EQ(plan->values.bytes, 64);
  EXPECT_EQ(plan->indices.bytes, 128);
}

TEST(MakePlan, NegativeAxisCountsFromTheBackOnlyIfAllowed) {
  PlanRequest request = CubeRequest();
  request.axis = -3;
  EXPECT_EQ(MakePlan(request, Limits())->axis, 0);
  request.axis_from_back = false;
  const auto plan = MakePlan(request, Limits());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().field, "x.axis");
}

TEST(MakePlan, MessageNamesKNAndAxis) {
  PlanRequest request = CubeRequest();
  request.k = 7;
  const auto plan = MakePlan(request, Limits());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().message, "k = 7 exceeds dimension 3 along axis 1");
}

TEST(MakePlan, LimitsAreExact) {
  EXPECT_TRUE(MakePlan(CubeRequest(), {24, 192}).ok());
  EXPECT_EQ(MakePlan(CubeRequest(), {23, 192}).status().reason,
            "TOO_MANY_ELEMENTS");
  EXPECT_EQ(MakePlan(CubeRequest(), {24, 191}).status().reason,
            "OUTPUT_TOO_LARGE");
  PlanRequest values_only = CubeRequest();
  values_only.wants_indices = false;
  EXPECT_TRUE(MakePlan(values_only, {24, 64}).ok());
}

TEST(MakePlan, ChecksTheRangeOfIndexTypesExactly) {
  PlanRequest request = CubeRequest();
  request.index_type = DType::kI32;
  // The last of the three indices is the offset plus 2.
  request.index_offset = 2147483647 - 2;
  EXPECT_TRUE(MakePlan(request, Limits()).ok());
  ++request.index_offset;
  EXPECT_FALSE(MakePlan(request, Limits()).ok());
  request.index_type = DType::kU32;
  request.index_offset = 4294967295 - 2;
  EXPECT_TRUE(MakePlan(request, Limits()).ok());
  ++request.index_offset;
  EXPECT_FALSE(MakePlan(request, Limits()).ok());
}

TEST(MakePlan, TheLastIndexOfALongAxisMayBeTheGreatest) {
  PlanRequest request = CubeRequest();
  request.index_type = DType::kI32;
  request.shape = {int64_t{1} << 31};
  request.axis = 0;
  EXPECT_TRUE(MakePlan(request, Limits()).ok());
  request.shape = {(int64_t{1} << 31) + 1};
  EXPECT_EQ(MakePlan(request, Limits()).status().message,
            "index 2147483648 along axis 0 exceeds 2147483647, the maximum of "
            "the index type i32");
}

TEST(SliceOffset, FollowsStrides) {
  PlanRequest request = CubeRequest();
  request.strides = {1, 100, 10};
  const auto plan = MakePlan(request, Limits());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(SliceOffset(*plan, plan->input, 0), 0);
  EXPECT_EQ(SliceOffset(*plan, plan->input, 1), 10);
  EXPECT_EQ(SliceOffset(*plan, plan->input, 7), 31);
}

}  // namespace
}  // namespace topk
