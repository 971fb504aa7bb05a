#include "server/calls/status_map.h"

#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"

namespace topk {
namespace {

TEST(StatusMap, InvalidInputHasErrorInfoAndBadRequest) {
  const grpc::Status status =
      ToGrpcStatus(InvalidArgument("REASON", "onnx.k", "k = 7 is wrong"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "k = 7 is wrong");
  google::rpc::Status rpc;
  ASSERT_TRUE(rpc.ParseFromString(status.error_details()));
  EXPECT_EQ(rpc.code(), 3);
  EXPECT_EQ(rpc.message(), "k = 7 is wrong");
  ASSERT_EQ(rpc.details_size(), 2);
  EXPECT_EQ(rpc.details(0).type_url(),
            "type.googleapis.com/google.rpc.ErrorInfo");
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(rpc.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "REASON");
  EXPECT_EQ(info.domain(), "topk.v1");
  EXPECT_EQ(info.metadata().at("field"), "onnx.k");
  google::rpc::BadRequest bad;
  ASSERT_TRUE(rpc.details(1).UnpackTo(&bad));
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), "onnx.k");
  EXPECT_EQ(bad.field_violations(0).description(), "k = 7 is wrong");
}

TEST(StatusMap, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_EQ(
        ToGrpcStatus({static_cast<Code>(code), "R", "", "m"}).error_code(),
        code);
  }
  EXPECT_TRUE(ToGrpcStatus(Status()).ok());
}

TEST(StatusMap, FitsATrailer) {
  const grpc::Status status = ToGrpcStatus(
      InvalidArgument("R", std::string(100000, 'f'), std::string(100000, 'm')));
  EXPECT_LT(status.error_message().size() + status.error_details().size(),
            8192u);
}

}  // namespace
}  // namespace topk
