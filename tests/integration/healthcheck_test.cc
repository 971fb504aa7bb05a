// The sub-command topkd healthcheck.
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include "tests/integration/topkd.h"

namespace topk::testing {
namespace {

int Healthcheck(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {kTopkd, "healthcheck"});
  return Subprocess(flags).Wait();
}

TEST(TopkdHealthcheck, ExitsAsGrpcHealthProbeDoes) {
  Topkd topkd;
  EXPECT_EQ(Healthcheck({"--target", topkd.target()}), 0);
  EXPECT_EQ(Healthcheck({"--target", topkd.target(), "--service",
                         "topk.v1.TopKService", "--timeout", "5s"}),
            0);
  EXPECT_EQ(Healthcheck({"--target", topkd.target(), "--service", "nobody"}),
            3);
  EXPECT_EQ(Healthcheck({"--bogus"}), 1);
  const TakenPort refuses(/*listens=*/false);
  EXPECT_EQ(Healthcheck({"--target", refuses.address(), "--timeout", "200ms"}),
            2);
}

TEST(TopkdHealthcheck, Exits4IfNotServing) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  v1::TopKService::Service unused;  // gRPC's own needs one that is like it
  builder.RegisterService(&unused);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  const auto server = builder.BuildAndStart();
  server->GetHealthCheckService()->SetServingStatus(false);
  EXPECT_EQ(Healthcheck({"--target", "127.0.0.1:" + std::to_string(port)}), 4);
}

TEST(TopkdHealthcheck, DoesNotAskAProxy) {
  Topkd topkd;
  const TakenPort refuses(/*listens=*/false);
  EXPECT_EQ(Subprocess({kTopkd, "healthcheck", "--target", topkd.target()},
                       {"http_proxy=http://" + refuses.address(),
                        "no_proxy=", "no_grpc_proxy="})
                .Wait(),
            0);
}

}  // namespace
}  // namespace topk::testing
