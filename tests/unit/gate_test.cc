#include "server/admission/gate.h"

#include <gtest/gtest.h>

namespace topk {
namespace {

TEST(Gate, OnceClosedLetsNobodyInAndSaysThatItMayBeAskedElsewhere) {
  Gate gate({}, {});
  gate.Close();
  Visit visit;
  const Status status = gate.Enter(grpc::ServerContext(), visit);
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.reason, "SHUTTING_DOWN");
  EXPECT_EQ(gate.admission().requests(), 0);
}

}  // namespace
}  // namespace topk
