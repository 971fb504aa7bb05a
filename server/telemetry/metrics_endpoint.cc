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
    exposer = std::make_unique<prometheus::Exposer>(address);
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
