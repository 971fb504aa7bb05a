// Replaces certificates under load.
#include <grpc/grpc_security.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>

#include "client/rpc_error.h"
#include "proto/library_versions.h"
#include "tests/integration/ask.h"
#include "tests/integration/secured.h"

namespace topk::testing {
namespace {

// Handshakes are expensive, and a few hundred calls per reload suffice.
constexpr auto kBetweenCalls = std::chrono::milliseconds(10);

// Makes a call on a new connection.
grpc::Status CallOnce(const std::string& target,
                      const grpc::SslCredentialsOptions& options,
                      grpc::ChannelArguments arguments,
                      grpc::ClientContext& context) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1::TopKService::NewStub(grpc::CreateCustomChannel(
      target, grpc::SslCredentials(options), arguments));
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  v1::TopKResponse response;
  return stub->ComputeTopK(&context, OnnxRequest({1, 2}, 1), &response);
}

class Reload : public Secured {
 protected:
  // Returns the serial number of the server's certificate, or 0 on failure.
  long Call(const TestServer& server) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = authority_.certificate();
    grpc::ClientContext context;
    const grpc::Status status = CallOnce(server.target(), options, {}, context);
    if (!status.ok()) {
      ADD_FAILURE() << status.error_message();
      return 0;
    }
    const auto certificates =
        context.auth_context()->FindPropertyValues("x509_pem_cert");
    return certificates.empty() ? 0
                                : SerialOf(std::string(certificates[0].data(),
                                                       certificates[0].size()));
  }
};

TEST_F(Reload, AnswersEveryCallDuringReloads) {
  Put("server", authority_.Issue({.serial = 1}));
  const TestServer server(TlsConfig());
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  std::atomic<long> newest = 0;
  std::jthread caller([&] {
    for (; !stop; ++calls) {
      newest = Call(server);
      std::this_thread::sleep_for(kBetweenCalls);
    }
  });
  EXPECT_TRUE(Eventually([&] { return newest == 1; }));

  // Replace one file, then the other: the server first sees a mismatch.
  Identity next = authority_.Issue({.serial = 2});
  Write("server.pem", next.certificate);
  EXPECT_TRUE(server.HasLogged("is not the key of the first certificate"));
  EXPECT_EQ(newest, 1);
  Write("server.key", next.key);
  EXPECT_TRUE(Eventually([&] { return newest == 2; }));

  // Replace both files at the same time, using links.
  next = authority_.Issue({.serial = 3});
  Put("third", next);
  for (const char* ending : {".pem", ".key"}) {
    std::filesystem::create_symlink(File(StrCat("third", ending)),
                                    File(StrCat("link", ending)));
    std::filesystem::rename(File(StrCat("link", ending)),
                            File(StrCat("server", ending)));
  }
  EXPECT_TRUE(Eventually([&] { return newest == 3; }));

  // Invalid files.
  Put("third", {"", ""});
  EXPECT_TRUE(server.HasLogged("has no certificate"));
  std::filesystem::remove(File("server.key"));
  EXPECT_TRUE(server.HasLogged("cannot read"));
  const int before = calls;
  EXPECT_TRUE(Eventually([&] { return calls > before + 20; }));
  EXPECT_EQ(newest, 3);
  const std::string log = server.Log();
  const std::string fault = "is not the key of the first certificate";
  EXPECT_EQ(log.find(fault), log.rfind(fault)) << "logged more than once";
  stop = true;
}

TEST_F(Reload, ChangesAllFilesOrNone) {
  const TestServer server(MutualConfig());
  EXPECT_EQ(Ask(MutualOptions(server)).message, "");
  Write("trusted.pem", authority_.certificate());
  ClientOptions options = MutualOptions(server);
  options.tls_ca = File("trusted.pem");
  // Handshakes and the check of each call must use the same authorities.
  Write("server.key", "not a key");
  Write("ca.pem", Authority().certificate());
  EXPECT_TRUE(server.HasLogged("previous content stays in use"));
  EXPECT_EQ(Ask(options).message, "");
}

TEST_F(Reload, ShowsTheInvalidFileAndWhenTheCertificateInUseExpires) {
  Write("lists", authority_.Revoke({}));
  ServerConfig config = MutualConfig();
  config.security.tls_client_crl = File("lists");
  config.metrics_listen = "127.0.0.1:0";
  TestServer server(config);
  // Returns the flags of the invalid files.
  const auto invalid = [&] {
    std::string flags;
    for (const char* flag :
         {"tls-cert", "tls-key", "tls-client-ca", "tls-client-crl"}) {
      const double value =
          Value(server, StrCat("topk_reload_failed{file=\"", flag, "\"}"));
      EXPECT_TRUE(value == 0 || value == 1) << flag;
      if (value == 1) flags += StrCat(flag, " ");
    }
    return flags;
  };
  EXPECT_EQ(invalid(), "");
  const auto expires_in = [&] {
    return Value(server, "topk_certificate_expiry_timestamp_seconds{}") -
           static_cast<double>(std::time(nullptr));
  };
  EXPECT_NEAR(expires_in(), 3600, 100);
  Write("lists", "no list");
  EXPECT_TRUE(Eventually([&] { return invalid() == "tls-client-crl "; }));
  std::filesystem::remove(File("ca.pem"));
  EXPECT_TRUE(Eventually([&] { return invalid() == "tls-client-ca "; }));
  Write("ca.pem", authority_.certificate());
  Write("server.key", authority_.Issue().key);
  EXPECT_TRUE(Eventually([&] { return invalid() == "tls-key "; }));
  Put("server", authority_.Issue({.valid_to = 7200}));
  Write("lists", authority_.Revoke({}));
  EXPECT_TRUE(Eventually([&] { return invalid().empty(); }));
  EXPECT_GT(expires_in(), 7000);
}

TEST_F(Reload, AcceptsCallsOfEveryClientThatConnects) {
  const TestServer server(MutualConfig());
  Write("trusted.pem", authority_.certificate());
  std::string authorities = authority_.certificate();
  for (int i = 0; i < 3; ++i) {
    const Authority next;
    // Use new names: gRPC 1.51 aborts the process if a client reads a
    // certificate file while it is empty.
    const std::string name = StrCat("next", i);
    Put(name, next.Issue({"next", ""}));
    ClientOptions options = MutualOptions(server);
    options.tls_ca = File("trusted.pem");
    options.tls_cert = File(name + ".pem");
    options.tls_key = File(name + ".key");
    authorities += next.certificate();
    Write("ca.pem", authorities);
    EXPECT_TRUE(Eventually([&] {
      const Status status = Ask(options);
      EXPECT_NE(status.code, Code::kUnauthenticated) << status.message;
      return status.ok();
    }));
  }
}

TEST_F(Reload, ReloadsAClientsCertificate) {
  const TestServer server(MutualConfig());
  Put("client", Authority().Issue());
  const Client client(MutualOptions(server));
  EXPECT_EQ(client.GetCapabilities().status().code, Code::kUnavailable);
  Put("client", authority_.Issue());
  EXPECT_TRUE(Eventually([&] { return client.GetCapabilities().ok(); }));
}

// A client that resumes its TLS session. Each call uses a new connection.
class Resuming {
 public:
  Resuming(const TestServer& server, const std::string& authority,
           const Identity& identity)
      : target_(server.target()),
        options_{authority, identity.key, identity.certificate},
        cache_(grpc_ssl_session_cache_create_lru(16)) {}
  ~Resuming() { grpc_ssl_session_cache_destroy(cache_); }
  Resuming(const Resuming&) = delete;

  // Returns the reason of the error or its message, or "" on success.
  std::string Call() const {
    const grpc_arg cache = grpc_ssl_session_cache_create_channel_arg(cache_);
    grpc::ChannelArguments arguments;
    arguments.SetPointerWithVtable(cache.key, cache.value.pointer.p,
                                   cache.value.pointer.vtable);
    grpc::ClientContext context;
    const grpc::Status status = CallOnce(target_, options_, arguments, context);
    if (status.ok()) return "";
    const Status ours = FromGrpc(status, context);
    return ours.reason.empty() ? ours.message : ours.reason;
  }

 private:
  const std::string target_;
  const grpc::SslCredentialsOptions options_;
  grpc_ssl_session_cache* const cache_;
};

TEST_F(Reload, RejectsCertificatesThatAreNoLongerAllowed) {
  const auto between = authority_.Delegate();
  Write("lists", authority_.Revoke({}) + between->Revoke({}));
  ServerConfig config = MutualConfig();
  config.security.tls_client_crl = File("lists");
  const TestServer server(config);
  // Seconds until a certificate expires: enough to connect on a busy machine.
  constexpr long kSoon = 10;
  Put("client", authority_.Issue({.names = "", .valid_to = kSoon}));
  const Client connected(MutualOptions(server));
  Identity of_between = between->Issue({.names = ""});
  of_between.certificate += between->certificate();
  const Identity expiring = authority_.Issue({.names = "", .valid_to = kSoon});
  const Identity revoked = authority_.Issue({.names = "", .serial = 3});
  const Resuming good(server, authority_.certificate(), of_between);
  const Resuming expires(server, authority_.certificate(), expiring);
  const Resuming is_revoked(server, authority_.certificate(), revoked);
  for (const Resuming* client : {&good, &expires, &is_revoked}) {
    EXPECT_EQ(client->Call(), "");
    EXPECT_EQ(client->Call(), "");
  }
  EXPECT_TRUE(connected.GetCapabilities().ok());
  ManyCall stream(grpc::CreateChannel(
      server.target(),
      grpc::SslCredentials(
          {authority_.certificate(), revoked.key, revoked.certificate})));
  stream.Ask(OnnxRequest({1, 2}, 1));

  Write("lists", authority_.Revoke({3}) + between->Revoke({}));
  const auto is_rejected = [&](const Resuming& client) {
    EXPECT_EQ(good.Call(), "");
    const std::string reason = client.Call();
    // Newer gRPC versions do not resume sessions with an expired certificate.
    return reason == "CERTIFICATE_NOT_VALID" ||
           (TOPK_GRPC_AT_LEAST(83) && &client == &expires &&
            reason.starts_with("failed to connect"));
  };
  for (const Resuming* bad : {&expires, &is_revoked}) {
    EXPECT_TRUE(Eventually([&] { return is_rejected(*bad); }));
    EXPECT_TRUE(is_rejected(*bad));
  }
  // The server also checks calls on an open connection.
  EXPECT_TRUE(Eventually([&] {
    const auto answer = connected.GetCapabilities();
    return !answer.ok() && answer.status().reason == "CERTIFICATE_NOT_VALID";
  }));
  v1::TopKResult result;
  EXPECT_FALSE(stream->Read(&result));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(good.Call(), "");
}

}  // namespace
}  // namespace topk::testing
