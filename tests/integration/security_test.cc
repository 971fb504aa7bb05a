// Certificates, also those that are replaced under load, tokens and rate
// limits.
#include <gmock/gmock.h>
#include <grpc/grpc_security.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "client/rpc_error.h"
#include "proto/library_versions.h"
#include "tests/integration/ask.h"
#include "tests/integration/secured.h"
#include "tests/integration/subprocess.h"
#include "tests/support/requests.h"

namespace topk::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using HealthListen = Secured;
using MutualTls = Secured;
using Tls = Secured;

class Tokens : public Secured {
 protected:
  ServerConfig TokensConfig() const {
    ServerConfig config;
    config.security.auth_tokens_file = File("tokens");
    return config;
  }

  // Makes a call with arbitrary authorization headers.
  static grpc::Status Call(const TestServer& server,
                           const std::vector<std::string>& authorization) {
    Metadata metadata;
    for (const std::string& value : authorization) {
      metadata.emplace_back("authorization", value);
    }
    return testing::Ask(server, OnnxRequest({1, 2}, 1), metadata).status;
  }

  static Metadata Bearer(const char* token) {
    return {{"authorization", StrCat("Bearer ", token)}};
  }

  // Returns whether the server knows Alice's token.
  static bool IsKnown(const TestServer& server) {
    return Call(server, {StrCat("Bearer ", kAliceToken)}).ok();
  }
};

TEST_F(Tokens, AreNeededForAllKindsOfCallsExceptHealthChecks) {
  const TestServer server(TokensConfig());
  const ClientOptions options = PlainOptions(server);
  EXPECT_EQ(Ask(options, "alice").message, "");
  EXPECT_EQ(Ask(options, "bob").message, "");
  const Status status = Ask(options, "stranger");
  EXPECT_EQ(status.code, Code::kUnauthenticated);
  EXPECT_EQ(status.reason, "TOKEN_UNKNOWN");
  EXPECT_THAT(status.message, Not(HasSubstr("stranger")));
  const Client client(options);
  const v1::TopKRequest request = OnnxRequest({1, 2}, 1);
  for (const Status& missing :
       {ComputeUnary(client, request).status(),
        ComputeStream(client, HeaderOf(request).header(), {}).status(),
        ComputeMany(client, {request})[0].status(),
        client.GetCapabilities().status()}) {
    EXPECT_EQ(missing.code, Code::kUnauthenticated);
    EXPECT_EQ(missing.reason, "TOKEN_MISSING");
  }
  EXPECT_TRUE(*client.IsServing(""));
}

TEST_F(Tokens, RevocationEndsOpenStreams) {
  const TestServer server(TokensConfig());
  const auto channel = server.Connect();
  ManyCall many(channel, Bearer(kAliceToken));
  StreamCall tensor(channel, Bearer(kAliceToken));
  ManyCall bobs(channel, Bearer(kBobToken));
  for (ManyCall* stream : {&many, &bobs}) stream->Ask(OnnxRequest({1, 2}, 1));
  ASSERT_TRUE(tensor->Write(HeaderOf(OnnxRequest({1, 2}, 1))));
  Write("tokens", Line("bob", kBobToken));
  v1::TopKResult result;
  EXPECT_FALSE(many->Read(&result));
  EXPECT_EQ(many->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(tensor->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  bobs.Ask(OnnxRequest({1, 2}, 1));
  EXPECT_TRUE(bobs.Finish().ok());
}

TEST_F(Tokens, RevocationAppliesToMessagesThatArriveLate) {
  const TestServer server(TokensConfig());
  const std::string small = OnnxRequest({1, 2}, 1).SerializeAsString();
  for (const auto& [method, message] :
       {std::pair("ComputeTopK", small), {"GetCapabilities", ""}}) {
    Write("tokens", Line("alice", kAliceToken));
    ASSERT_TRUE(Eventually([&] { return IsKnown(server); }));
    const auto start = std::chrono::steady_clock::now();
    const auto revoke = [&] {
      Write("tokens", Line("bob", kBobToken));
      EXPECT_TRUE(Eventually([&] {
        return std::chrono::steady_clock::now() - start >
                   std::chrono::seconds(2) &&
               !IsKnown(server);
      }));
    };
    EXPECT_EQ(RawCall(server.Connect(), StrCat("/topk.v1.TopKService/", method),
                      {message}, Bearer(kAliceToken), revoke)
                  .status.error_code(),
              grpc::StatusCode::UNAUTHENTICATED)
        << method;
  }
}

TEST_F(Tokens, RevocationEndsAStreamWhoseClientDoesNotRead) {
  constexpr int64_t kElements = int64_t{8} << 20;
  ServerConfig config = TokensConfig();
  config.metrics_listen = "127.0.0.1:0";
  TestServer server(config);
  const auto charged = [&] { return Value(server, "topk_inflight_bytes{}"); };
  StreamCall stream(server.Connect(), Bearer(kAliceToken));
  v1::TopKRequestChunk message = HeaderOf(OnnxRequest({1, 2}, kElements));
  message.mutable_header()->mutable_tensor()->set_shape(0, kElements);
  ASSERT_TRUE(stream->Write(message));
  message.set_data(std::string(1 << 20, '\0'));
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(stream->WritesDone());
  v1::TopKResponseChunk answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_GT(charged(), 0);
  Write("tokens", Line("bob", kBobToken));
  EXPECT_TRUE(Eventually([&] { return charged() == 0; }));
  while (stream->Read(&answer)) continue;
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(Tokens, FollowRfc6750) {
  const TestServer server(TokensConfig());
  const std::string token = kAliceToken;
  EXPECT_TRUE(Call(server, {"Bearer " + token}).ok());
  EXPECT_TRUE(Call(server, {"bearer " + token}).ok());
  EXPECT_TRUE(Call(server, {"BEARER   " + token}).ok());
  for (const std::vector<std::string>& bad :
       std::initializer_list<std::vector<std::string>>{
           {token},
           {"Basic " + token},
           {"Bearer"},
           {"Bearer "},
           {""},
           {"Bearer " + token, "Bearer " + token},
           {"Bearer " + std::string(4000, 'a')}}) {
    EXPECT_EQ(Call(server, bad).error_code(), grpc::StatusCode::UNAUTHENTICATED)
        << bad[0];
  }
}

TEST_F(Tokens, AreReloaded) {
  ServerConfig config = TokensConfig();
  config.metrics_listen = "127.0.0.1:0";
  TestServer server(config);
  const std::string failed = "topk_reload_failed{file=\"auth-tokens-file\"}";
  const ClientOptions options = PlainOptions(server);
  EXPECT_EQ(Ask(options, "bob").message, "");
  Write("tokens", Line("stranger", "token-of-a-stranger"));
  EXPECT_TRUE(Eventually([&] { return Ask(options, "stranger").ok(); }));
  EXPECT_EQ(Ask(options, "bob").reason, "TOKEN_UNKNOWN");
  EXPECT_EQ(Value(server, failed), 0);
  Write("tokens", Line("alice", kAliceToken) + "bob:0123\n");
  EXPECT_TRUE(server.HasLogged("line 2: not name:SHA-256"));
  EXPECT_EQ(Ask(options, "stranger").message, "");
  EXPECT_EQ(Ask(options, "alice").reason, "TOKEN_UNKNOWN");
  EXPECT_EQ(Value(server, failed), 1);
  Write("tokens", Line("alice", kAliceToken));
  EXPECT_TRUE(Eventually([&] { return Value(server, failed) == 0; }));
}

TEST_F(Tokens, LimitsApplyPerToken) {
  ServerConfig config = TokensConfig();
  config.security.client_requests_per_second = 0.001;
  const TestServer server(config);
  const ClientOptions options = PlainOptions(server);
  EXPECT_EQ(Ask(options, "alice").message, "");
  const Status status = Ask(options, "alice");
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_EQ(status.reason, "RATE_LIMITED");
  EXPECT_THAT(status.message,
              HasSubstr("--client-requests-per-second = 0.001, "
                        "--client-bytes-per-second = 0 (no limit))"));
  EXPECT_THAT(status.message, HasSubstr("\"alice\""));
  EXPECT_EQ(Ask(options, "bob").message, "");
  EXPECT_EQ(Ask(options, "bob").reason, "RATE_LIMITED");
  EXPECT_EQ(Ask(options, "stranger").reason, "TOKEN_UNKNOWN");
}

// A certificate, token and Unix socket with the same name have separate limits.
TEST_F(Tokens, LimitsDifferFromThoseOfCertificatesOfThatName) {
  Put("client", authority_.Issue({"unix", ""}));
  Write("tokens", Line("unix", kBobToken));
  ServerConfig config = MutualConfig();
  config.listen = {"127.0.0.1:0", "unix:" + File("socket")};
  config.security.client_requests_per_second = 0.001;
  {
    TestServer server(config);
    EXPECT_EQ(Ask(MutualOptions(server)).message, "");
    EXPECT_EQ(Ask({.target = config.listen[1]}).message, "");
    EXPECT_EQ(Ask({.target = config.listen[1], .retry = std::nullopt}).reason,
              "RATE_LIMITED");
    EXPECT_EQ(Ask(MutualOptions(server)).reason, "RATE_LIMITED");
  }
  config.security.auth_tokens_file = File("tokens");
  const TestServer server(config);
  EXPECT_EQ(Ask(MutualOptions(server), "bob").message, "");
  const Status status = Ask(MutualOptions(server), "bob");
  EXPECT_EQ(status.reason, "RATE_LIMITED");
  EXPECT_EQ(status.field, "client:token:unix");
}

TEST_F(Tokens, RatesCountTheItemsOfStreams) {
  ServerConfig config;
  config.security.client_requests_per_second = 0.001;
  const TestServer server(config);
  const Client client(PlainOptions(server));
  const auto results = ComputeMany(
      client, std::vector<v1::TopKRequest>(10, OnnxRequest({1, 2}, 1)));
  ASSERT_EQ(results.size(), 10u);
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].ok() ? "" : results[i].status().reason,
              i == 0 ? "" : "RATE_LIMITED");
  }
}

TEST_F(HealthListen, ServesOnlyHealthInPlaintext) {
  ServerConfig config = MutualConfig();
  config.security.auth_tokens_file = File("tokens");
  config.health_listen = "127.0.0.1:0";
  TestServer server(config);
  const std::string target = server.server().side_addresses().at("health");
  const Client probe({.target = target, .retry = std::nullopt});
  EXPECT_TRUE(*probe.IsServing("topk.v1.TopKService"));
  EXPECT_EQ(probe.IsServing("nobody").status().code, Code::kNotFound);
  const auto channel = ConnectTo(target);
  for (const char* method :
       {kReflection, "/topk.v1.TopKService/ComputeTopK", "/a/b"}) {
    EXPECT_EQ(RawCall(channel, method, {"\x3a\x01*"}).status.error_code(),
              grpc::StatusCode::UNIMPLEMENTED)
        << method;
  }
  server.server().Drain({}, std::chrono::seconds(20));
  EXPECT_FALSE(*probe.IsServing("")) << "drained";
}

TEST_F(Tls, LogsFewLinesAboutRequestsWithoutTls) {
  constexpr int kRequests = 40;
  Topkd topkd(
      {"--tls-cert", File("server.pem"), "--tls-key", File("server.key")});
  for (int i = 0; i < kRequests; ++i) HttpGet(topkd.target(), "/");
  EXPECT_TRUE(topkd.HasLogged("Handshak"));
  EXPECT_EQ(topkd.process().Stop(), 0);
  std::istringstream lines(topkd.process().Output());
  int errors = 0;
  for (std::string line; std::getline(lines, line);) {
    errors += line.find(" error ") != std::string::npos;
  }
  EXPECT_LT(errors, kRequests / 2) << topkd.process().Output();
}

TEST_F(Tls, ClientsCheckTheServersName) {
  Put("server", authority_.Issue({"topk", "DNS:topk.example"}));
  const TestServer server(TlsConfig());
  ClientOptions options = TlsOptions(server);
  EXPECT_EQ(Ask(options).code, Code::kUnavailable);
  options.tls_server_name = "topk.example";
  EXPECT_EQ(Ask(options).message, "");
}

TEST_F(Tls, CoversAllAddressesButNoUnixSocket) {
  ServerConfig config = MutualConfig();
  config.listen = {"127.0.0.1:0", "localhost:0", "unix:" + File("socket")};
  config.unix_socket_mode = 0640;
  config.security.tls_allowed_san = {"nobody.example"};
  TestServer server(config);
  EXPECT_EQ(std::filesystem::status(File("socket")).permissions(),
            std::filesystem::perms{0640});
  ClientOptions options = MutualOptions(server);
  for (const std::string& address : server.server().addresses()) {
    options.target = address;
    if (address.starts_with("unix:")) {
      EXPECT_EQ(Ask(options).message,
                StrCat("tls: ", Quote(address),
                       " is a Unix socket, which has no TLS"));
      EXPECT_EQ(Ask({.target = address}).message, "");
    } else {
      EXPECT_EQ(Ask(options).reason, "CLIENT_NOT_ALLOWED") << address;
    }
  }
}

TEST_F(MutualTls, NeedsAnAllowedName) {
  for (const char* allowed :
       {"alice.example.org", "*.example.org", "spiffe://x/alice"}) {
    ServerConfig config = MutualConfig();
    config.security.tls_allowed_san = {"nobody.example", allowed};
    const TestServer server(config);
    EXPECT_EQ(Ask(MutualOptions(server)).message, "") << allowed;
  }
  ServerConfig config = MutualConfig();
  config.security.tls_allowed_san = {"bob.example.org", "*.example.com"};
  const TestServer server(config);
  const Status status = Ask(MutualOptions(server));
  EXPECT_EQ(status.code, Code::kPermissionDenied);
  EXPECT_EQ(status.reason, "CLIENT_NOT_ALLOWED");
  EXPECT_THAT(status.message, AllOf(HasSubstr("DNS:alice.example.org"),
                                    HasSubstr("URI:spiffe://x/alice")));
  // Health checks do not need an allowed name.
  EXPECT_TRUE(Client(MutualOptions(server)).IsServing("").ok());
}

TEST_F(MutualTls, IgnoresCommonNames) {
  Put("client", authority_.Issue({"alice.example.org", ""}));
  ServerConfig config = MutualConfig();
  config.security.tls_allowed_san = {"alice.example.org"};
  const TestServer server(config);
  EXPECT_EQ(Ask(MutualOptions(server)).message,
            "the client's certificate has no name");
}

TEST_F(Tls, InvalidFilesAreStartErrors) {
  using Config = SecurityConfig;
  const std::string ca = File("ca.pem");
  const std::string key = File("server.key");
  const std::pair<std::function<void(Config&)>, std::string> cases[] = {
      {[](Config&) {}, ""},
      {[](Config& c) { c.tls_cert = ""; },
       "TLS needs --tls-cert and --tls-key; --tls-cert is not given"},
      {[](Config& c) { c.tls_key = ""; },
       "TLS needs --tls-cert and --tls-key; --tls-key is not given"},
      {[](Config& c) { c.tls_key = "/nonexistent"; },
       "--tls-key: cannot read /nonexistent: No such file or directory"},
      {[&](Config& c) { c.tls_client_ca = key; },
       StrCat("--tls-client-ca: ", key, " has no certificate in PEM form")},
      {[&](Config& c) { c.tls_client_crl = ca; },
       StrCat("--tls-client-crl: ", ca, " has no revocation list in PEM form")},
      {[](Config& c) {
         c.tls_client_ca = "";
         c.tls_allowed_san = {"a.example"};
       },
       "--tls-allowed-san needs --tls-client-ca; without it, the server asks "
       "for no client certificates"},
      {[&](Config& c) {
         c.tls_client_ca = "";
         c.tls_client_crl = ca;
       },
       "--tls-client-crl needs --tls-client-ca; without it, the server asks "
       "for no client certificates"},
      {[&](Config& c) { c.auth_tokens_file = ca; },
       StrCat("--auth-tokens-file: ", ca,
              ": line 1: not name:SHA-256 with 64 hexadecimal digits; use "
              "topkd hash-token to print a line")},
  };
  for (const auto& [change, error] : cases) {
    ServerConfig config = MutualConfig();
    config.listen = {"127.0.0.1:0"};
    change(config.security);
    const auto log = MakeLoggerTo(std::make_shared<LogSink>(), "info", "text");
    const auto server = Server::Start(config, *log);
    EXPECT_EQ(server.ok() ? "" : server.status().message, error);
  }
}

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
  // Returns a hash of the server's certificate, or 0 on failure.
  size_t Call(const TestServer& server) const {
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
    return certificates.empty()
               ? 0
               : HashOf({certificates[0].data(), certificates[0].size()});
  }
  static size_t HashOf(std::string_view certificate) {
    return std::hash<std::string_view>()(certificate);
  }
};

TEST_F(Reload, AnswersEveryCallDuringReloads) {
  const TestServer server(TlsConfig());
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  std::atomic<size_t> newest = 0;
  std::jthread caller([&] {
    for (; !stop; ++calls) {
      newest = Call(server);
      // Handshakes are expensive, and a few hundred calls per reload suffice.
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_TRUE(Eventually([&] { return newest != 0; }));
  const size_t first = newest;

  // Replace one file, then the other: the server first sees a mismatch.
  Identity next = authority_.Issue();
  const auto uses_next = [&] { return newest == HashOf(next.certificate); };
  Write("server.pem", next.certificate);
  EXPECT_TRUE(server.HasLogged("is not the key of the first certificate"));
  EXPECT_EQ(newest, first);
  Write("server.key", next.key);
  EXPECT_TRUE(Eventually(uses_next));

  // Replace both files at the same time, using links.
  next = authority_.Issue();
  Put("third", next);
  for (const char* ending : {".pem", ".key"}) {
    std::filesystem::create_symlink(File(StrCat("third", ending)),
                                    File(StrCat("link", ending)));
    std::filesystem::rename(File(StrCat("link", ending)),
                            File(StrCat("server", ending)));
  }
  EXPECT_TRUE(Eventually(uses_next));

  // Invalid files.
  Put("third", {"", ""});
  EXPECT_TRUE(server.HasLogged("has no certificate"));
  std::filesystem::remove(File("server.key"));
  EXPECT_TRUE(server.HasLogged("cannot read"));
  const int before = calls;
  EXPECT_TRUE(Eventually([&] { return calls > before + 20; }));
  EXPECT_TRUE(uses_next());
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
  EXPECT_NEAR(Value(server, "topk_revocation_list_expiry_timestamp_seconds{}"),
              static_cast<double>(std::time(nullptr)) + 3600, 100);
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
