#include "server/admission/admission_controller.h"

#include <gtest/gtest.h>

namespace topk {
namespace {

TEST(AdmissionController,
     OnceClosedLetsNobodyInAndSaysThatItMayBeAskedElsewhere) {
  AdmissionController admission({}, {});
  admission.Close();
  AdmittedCall admitted;
  const Status status = admission.AdmitCall(grpc::ServerContext(), admitted);
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.reason, "SHUTTING_DOWN");
  EXPECT_EQ(admission.in_flight().calls(), 0);
}

}  // namespace
}  // namespace topk
