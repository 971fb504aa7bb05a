#include "server/telemetry/metrics_endpoint.h"

#include <civetweb.h>
#include <netdb.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <future>
#include <string_view>
#include <vector>

#include "core/base/text.h"
#include "server/telemetry/content_negotiation.h"
#include "server/telemetry/open_metrics.h"
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

std::string_view HeaderOf(mg_connection* connection, const char* name) {
  const char* const value = mg_get_header(connection, name);
  return value == nullptr ? "" : value;
}

// Returns "" if zlib has no memory.
std::string Gzip(std::string_view text) {
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipFormat,
                   MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
    return "";
  }
  std::string compressed(deflateBound(&stream, text.size()), '\0');
  // zlib only reads it, but declares so only with ZLIB_CONST.
  stream.next_in =
      const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

}  // namespace

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<const MetricRegistry> metrics) {
  const std::vector<std::string> options = Options(address);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  pointers.push_back(nullptr);
  mg_context* const server = mg_start(nullptr, nullptr, pointers.data());
  if (server == nullptr) {
    return CannotBind("METRICS_LISTEN", "metrics_listen", "serve metrics on",
                      address);
  }
  // civetweb hands it back as a pointer to what is not constant.
  mg_set_request_handler(server, "/metrics", Answer,
                         const_cast<MetricRegistry*>(metrics.get()));
  mg_server_port bound{};
  mg_get_server_ports(server, 1, &bound);
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(
      std::move(metrics), server, WithPort(address, bound.port)));
}

// Returns the status for civetweb; after 0 it answers by itself.
int MetricsEndpoint::Answer(mg_connection* connection, void* metrics) {
  const std::string_view method =
      mg_get_request_info(connection)->request_method;
  if (method != "GET") return 0;
  const auto& registry = *static_cast<const MetricRegistry*>(metrics);
  std::string_view type = "text/plain; charset=utf-8";
  std::string body;
  if (PrefersOpenMetrics(HeaderOf(connection, "Accept"))) {
    type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const Exemplars exemplars = registry.CollectExemplars();
    body = ToOpenMetrics(registry.Collect(), exemplars);
  } else {
    body = prometheus::TextSerializer().Serialize(registry.Collect());
  }
  std::string response =
      StrCat("HTTP/1.1 200 OK\r\nContent-Type: ", type, "\r\n");
  if (AcceptsGzip(HeaderOf(connection, "Accept-Encoding"))) {
    if (std::string compressed = Gzip(body); !compressed.empty()) {
      body = std::move(compressed);
      response += "Content-Encoding: gzip\r\n";
    }
  }
  response += StrCat("Content-Length: ", body.size(), "\r\n\r\n", body);
  mg_write(connection, response.data(), response.size());
  return 200;
}

MetricsEndpoint::~MetricsEndpoint() {
  // civetweb looks at its stop flag every 2 s, or when someone connects.
  const std::future<void> stopped =
      std::async(std::launch::async, [this] { mg_stop(server_); });
  while (stopped.wait_for(std::chrono::milliseconds(5)) !=
         std::future_status::ready) {
    Knock(address_);
  }
}

}  // namespace topk
