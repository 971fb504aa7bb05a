#include "server/admission/admission_controller.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

namespace topk {
namespace {

TEST(AdmissionController,
     OnceClosedLetsNobodyInAndSaysThatItMayBeAskedElsewhere) {
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

}  // namespace
}  // namespace topk
