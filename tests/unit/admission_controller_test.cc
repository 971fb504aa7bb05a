#include "server/admission/admission_controller.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

namespace topk {
namespace {

TEST(AdmissionController, RejectsCallsOnceClosed) {
  spdlog::logger log("test");
  const auto authenticator = Authenticator::Start({}, nullptr, log);
  ASSERT_TRUE(authenticator.ok());
  AdmissionController admission(**authenticator, {}, {});
  admission.Close();
  AdmittedCall admitted;
  const Status status = admission.AdmitCall(grpc::ServerContext(), admitted);
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.reason, "SHUTTING_DOWN");
  EXPECT_EQ(admission.in_flight().calls(), 0);
}

TEST(AdmissionController, CountsAMessageAndItsOtherMemory) {
  spdlog::logger log("test");
  const auto authenticator = Authenticator::Start({}, nullptr, log);
  ASSERT_TRUE(authenticator.ok());
  AdmissionController admission(
      **authenticator,
      {.bytes = 128, .client_bytes = 128, .calls = 1, .client_calls = 1}, {});
  AdmittedCall admitted;
  ASSERT_TRUE(admission.AdmitCall(grpc::ServerContext(), admitted).ok());
  InFlightLimiter::Charge charge(admitted.reservation);
  EXPECT_TRUE(admission.AdmitRequest(admitted, 100, 28, charge).ok());
  EXPECT_EQ(admission.in_flight().bytes(), 128);
}

}  // namespace
}  // namespace topk
