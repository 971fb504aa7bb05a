#include "tests/support/test_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "server/telemetry/logging.h"
#include "tests/support/requests.h"

namespace topk::testing {

std::shared_ptr<spdlog::logger> MakeLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format) {
  auto log = std::make_shared<spdlog::logger>("topkd", std::move(sink));
  Configure(*log, level, format);
  return log;
}

TestServer::TestServer(ServerConfig config, const std::string& log_format)
    : log_(MakeLoggerTo(log_sink_, config.log_level, log_format)) {
  if (config.listen == ServerConfig().listen) config.listen = {"127.0.0.1:0"};
  if (config.pollers == 0) config.pollers = 2;
  auto server = Server::Start(config, *log_);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().message.c_str());
    std::abort();
  }
  server_ = *std::move(server);
}

TestServer::~TestServer() {
  server_.reset();
  EXPECT_EQ(BusyPoller(Log()), "");
}

bool TestServer::HasLogged(const std::string& text) const {
  return Eventually([&] { return Log().find(text) != std::string::npos; });
}

std::string BusyPoller(const std::string& log) {
#ifdef TOPK_SANITIZED
  constexpr int64_t kMaxMilliseconds = 1000;
#else
  constexpr int64_t kMaxMilliseconds = 100;
#endif
  constexpr std::string_view kBusy = "poller busy: one event took ";
  for (size_t at = log.find(kBusy); at != std::string::npos;
       at = log.find(kBusy, at + 1)) {
    const char* const number = log.c_str() + at + kBusy.size();
    if (std::strtoll(number, nullptr, 10) < kMaxMilliseconds) continue;
    return log.substr(at, log.find('\n', at) - at);
  }
  return "";
}

std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // Do not share connections between tests.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

v1::TopKRequest OnnxRequest(const std::vector<float>& values, int64_t k) {
  v1::TopKRequest request =
      OnnxRequest(v1::DATA_TYPE_F32, {static_cast<int64_t>(values.size())}, k);
  request.mutable_tensor()->set_data(values.data(),
                                     values.size() * sizeof(float));
  return request;
}

bool Eventually(const std::function<bool()>& condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

DescriptorLimit::DescriptorLimit(rlim_t max) {
  getrlimit(RLIMIT_NOFILE, &before_);
  const rlimit lower = {max, before_.rlim_max};
  setrlimit(RLIMIT_NOFILE, &lower);
}

int OpenSocketTo(const std::string& address, int seconds) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  const uint16_t port =
      htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  sockaddr_in v4{AF_INET, port, {}, {}};
  sockaddr_in6 v6{AF_INET6, port, 0, in6addr_loopback, 0};
  const bool is_v6 = host == "[::1]";
  if (!is_v6) inet_pton(AF_INET, host.c_str(), &v4.sin_addr);
  const int fd =
      socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval wait{seconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  const int connected =
      is_v6 ? connect(fd, reinterpret_cast<const sockaddr*>(&v6), sizeof(v6))
            : connect(fd, reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
  if (connected == 0) return fd;
  close(fd);
  return -1;
}

std::string HttpExchange(const std::string& address, const std::string& request,
                         int seconds) {
  const int fd = OpenSocketTo(address, seconds);
  std::string answer;
  if (write(fd, request.data(), request.size()) ==
      static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  return answer;
}

std::string HttpGet(const std::string& address, const std::string& path) {
  const std::string answer = HttpExchange(
      address, "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n");
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? "" : answer.substr(body + 4);
}

}  // namespace topk::testing
