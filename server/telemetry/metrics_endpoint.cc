#include "server/telemetry/metrics_endpoint.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <future>
#include <utility>
#include <vector>

#include "server/transport/addresses.h"

namespace topk {
namespace {

// Each civetweb thread serves one connection at a time, and an idle connection
// occupies a thread for kTimeoutMs. At most kHttpThreads + kQueue connections
// are accepted, and kBacklog more can wait in the kernel.
constexpr int kHttpThreads = 32;
constexpr int kQueue = 32;
constexpr int kBacklog = 64;
constexpr int kTimeoutMs = 1000;

std::vector<std::string> CivetwebOptions(const std::string& address) {
  return {"listening_ports",    address,
          "num_threads",        std::to_string(kHttpThreads),
          "connection_queue",   std::to_string(kQueue),
          "listen_backlog",     std::to_string(kBacklog),
          "request_timeout_ms", std::to_string(kTimeoutMs)};
}

void WakeAcceptThread(const std::string& address) {
  const size_t colon = address.rfind(':');
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.substr(0, colon).c_str(),
                  address.substr(colon + 1).c_str(), &hints, &found) != 0) {
    return;
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    (void)connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

MetricsEndpoint::MetricsEndpoint(const std::string& address,
                                 std::shared_ptr<MetricRegistry> metrics)
    : metrics_(std::move(metrics)),
      exposer_(std::make_unique<prometheus::Exposer>(CivetwebOptions(address))),
      address_(WithPort(address, exposer_->GetListeningPorts().front())) {
  exposer_->RegisterCollectable(metrics_);
}

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<MetricRegistry> metrics) {
  try {
    return std::unique_ptr<MetricsEndpoint>(
        new MetricsEndpoint(address, std::move(metrics)));
  } catch (const std::exception&) {
    return CannotBind("serve metrics on", address);
  }
}

MetricsEndpoint::~MetricsEndpoint() {
  // civetweb checks its stop flag only every 2 s and when a client connects, so
  // connect repeatedly until civetweb has stopped.
  const std::future<void> stopped =
      std::async(std::launch::async, [this] { exposer_.reset(); });
  while (stopped.wait_for(std::chrono::milliseconds(5)) !=
         std::future_status::ready) {
    WakeAcceptThread(address_);
  }
}

}  // namespace topk
