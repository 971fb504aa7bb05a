// The sub-command topkd healthcheck.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include "tests/integration/secured.h"
#include "tests/integration/topkd.h"

namespace topk::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

int Healthcheck(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {kTopkd, "healthcheck"});
  return Subprocess(flags).Wait();
}

TEST(TopkdHealthcheck, HasTheExitStatusesOfGrpcHealthProbe) {
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

TEST(TopkdHealthcheck, RejectsPortsThatGrpcWouldChange) {
  for (const char* target : {"127.0.0.1:100001", "127.0.0.1:0x50", "\x1b:1"}) {
    Subprocess probe({kTopkd, "healthcheck", "--target", target});
    EXPECT_EQ(probe.Wait(), 1) << target;
    EXPECT_THAT(probe.Output(), HasSubstr("--target: \""));
    EXPECT_THAT(probe.Output(),
                HasSubstr("\" is not host:port with a port of 1 .. 65535\n"));
    EXPECT_THAT(probe.Output(), Not(HasSubstr("\x1b")));
  }
  Subprocess probe({kTopkd, "healthcheck", "--tls-ca", "\x1b[2J"});
  EXPECT_EQ(probe.Wait(), 1);
  EXPECT_THAT(probe.Output(), HasSubstr("--tls-ca: cannot read \\x1b[2J: "));
}

using TopkdHealthcheckTls = Secured;

TEST_F(TopkdHealthcheckTls, ExplainsAFailedConnection) {
  const auto error_of = [](const std::string& target,
                           std::vector<std::string> flags) {
    flags.insert(flags.begin(), {kTopkd, "healthcheck", "--target", target});
    Subprocess probe(flags);
    EXPECT_EQ(probe.Wait(), 2);
    return probe.Output();
  };
  const TestServer secured(TlsConfig());
  EXPECT_THAT(error_of(secured.target(), {}),
              HasSubstr("\nhint: the server may require TLS: --tls"));
  const TestServer plain(PlainConfig());
  EXPECT_THAT(error_of(plain.target(), {"--tls"}),
              HasSubstr("\nhint: the server does not use TLS"));
  const TakenPort refuses(/*listens=*/false);
  EXPECT_THAT(error_of(refuses.address(), {"--timeout", "200ms"}),
              AllOf(HasSubstr("Connection refused"), Not(HasSubstr("hint"))));
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

TEST(TopkdHealthcheck, UsesNoProxy) {
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
