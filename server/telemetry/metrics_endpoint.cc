#include "server/telemetry/metrics_endpoint.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <future>
#include <vector>

#include "server/transport/listeners.h"

namespace topk {
namespace {

// civetweb reads a request and writes its response on one thread. A connection
// that sends nothing occupies its thread until the timeout, and scrapes wait
// behind the connections that came before: a second per kHttpThreads of them.
// At most kHttpThreads + kQueue connections have a file descriptor here, and
// kBacklog wait in the kernel.
constexpr int kHttpThreads = 32;
constexpr int kQueue = 32;
constexpr int kBacklog = 64;
constexpr int kTimeoutMs = 1000;

std::vector<std::string> Options(const std::string& address) {
  return {"listening_ports",    address,
          "num_threads",        std::to_string(kHttpThreads),
          "connection_queue",   std::to_string(kQueue),
          "listen_backlog",     std::to_string(kBacklog),
          "request_timeout_ms", std::to_string(kTimeoutMs)};
}

// Connects to host:port and hangs up.
void Knock(const std::string& address) {
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

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address,
    const std::shared_ptr<prometheus::Collectable>& metrics) {
  std::unique_ptr<prometheus::Exposer> exposer;
  try {  // civetweb's wrapper throws
    exposer = std::make_unique<prometheus::Exposer>(Options(address));
  } catch (const std::exception&) {  // its text does not know the cause
    return CannotBind("METRICS_LISTEN", "metrics_listen", "serve metrics on",
                      address);
  }
  exposer->RegisterCollectable(metrics);
  const std::vector<int> ports = exposer->GetListeningPorts();
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(
      std::move(exposer),
      WithPort(address, ports.empty() ? 0 : ports.front())));
}

MetricsEndpoint::~MetricsEndpoint() {
  // civetweb looks at its stop flag every 2 s, or when someone connects.
  const std::future<void> stopped =
      std::async(std::launch::async, [this] { exposer_.reset(); });
  while (stopped.wait_for(std::chrono::milliseconds(5)) !=
         std::future_status::ready) {
    Knock(address_);
  }
}

}  // namespace topk
