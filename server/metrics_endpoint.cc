#include "server/metrics_endpoint.h"

#include <microhttpd.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "server/transport/connection_options.h"

namespace topk {
namespace {

constexpr unsigned kTimeoutSeconds = 10;

MHD_Result Send(MHD_Connection* to, unsigned status, std::string body = "") {
  MHD_Response* const response = MHD_create_response_from_buffer(
      body.size(), body.data(), MHD_RESPMEM_MUST_COPY);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                          "text/plain; version=0.0.4; charset=utf-8");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  const MHD_Result sent = MHD_queue_response(to, status, response);
  MHD_destroy_response(response);
  return sent;
}

// Responds to the headers of a request without reading a body. The library
// omits the body of the response to HEAD.
MHD_Result Respond(void* registry, MHD_Connection* connection, const char* path,
                   const char* method, const char*, const char*, size_t*,
                   void**) {
  if (path != std::string_view("/metrics")) {
    return Send(connection, MHD_HTTP_NOT_FOUND);
  }
  if (method != std::string_view(MHD_HTTP_METHOD_GET) &&
      method != std::string_view(MHD_HTTP_METHOD_HEAD)) {
    return Send(connection, MHD_HTTP_METHOD_NOT_ALLOWED);
  }
  return Send(connection, MHD_HTTP_OK,
              prometheus::TextSerializer().Serialize(
                  static_cast<MetricRegistry*>(registry)->Collect()));
}

}  // namespace

MetricsEndpoint::MetricsEndpoint(std::shared_ptr<MetricRegistry> metrics,
                                 spdlog::logger& log)
    : metrics_(std::move(metrics)),
      acceptor_(SideConnectionOptions(), /*ipv6_prefix=*/64, &log) {}

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<MetricRegistry> metrics,
    spdlog::logger& log) {
  std::unique_ptr<MetricsEndpoint> endpoint(
      new MetricsEndpoint(std::move(metrics), log));
  const auto accept = [self = endpoint.get()](int, int fd) {
    // The library stores the client's address, but only we could use it.
    const sockaddr unknown{};
    MHD_add_connection(self->daemon_, fd, &unknown, sizeof(unknown));
  };
  if (Status s = endpoint->acceptor_.Listen(address, accept); !s.ok()) return s;
  endpoint->daemon_ = MHD_start_daemon(
      MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC,
      /*port=*/0, nullptr, nullptr, Respond, endpoint->metrics_.get(),
      MHD_OPTION_CONNECTION_TIMEOUT, kTimeoutSeconds, MHD_OPTION_END);
  if (endpoint->daemon_ == nullptr) {
    return Status{Code::kResourceExhausted, "START", "",
                  "cannot serve metrics: the limit on threads or on open files "
                  "(ulimit -n) is too low; raise it"};
  }
  endpoint->acceptor_.Start();
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() {
  acceptor_.Stop();
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

}  // namespace topk
