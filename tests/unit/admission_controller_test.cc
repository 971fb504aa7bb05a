#include "server/admission/admission_controller.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

namespace topk {
namespace {

std::unique_ptr<Authenticator> AcceptAnyone() {
  static spdlog::logger log("test");
  return *Authenticator::Start({}, nullptr, log);
}

TEST(AdmissionController, RejectsCallsOnceClosed) {
  const std::unique_ptr<Authenticator> anyone = AcceptAnyone();
  AdmissionController admission(*anyone, {}, {});
  admission.Close({});
  const grpc::ServerContext context;
  CallInfo call = {.context = &context};
  const Status status = admission.AdmitCall(call);
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.reason, "SHUTTING_DOWN");
  EXPECT_EQ(admission.in_flight().calls(), 0);
}

}  // namespace
}  // namespace topk
