#include "server/metrics_endpoint.h"

#include <poll.h>
#include <prometheus/text_serializer.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <list>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "server/transport/addresses.h"
#include "server/transport/connection_options.h"

namespace topk {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxRequestBytes = size_t{16} << 10;
constexpr std::chrono::seconds kRequestTimeout{5};
constexpr std::chrono::seconds kResponseTimeout{10};
// How often deadlines are checked.
constexpr int kCheckMs = 1000;

std::string Response(std::string_view status, std::string_view type,
                     std::string_view body) {
  return StrCat("HTTP/1.1 ", status, "\r\nContent-Type: ", type,
                "\r\nContent-Length: ", body.size(),
                "\r\nConnection: close\r\n\r\n", body);
}

std::string Failure(std::string_view status) {
  return Response(status, "text/plain", "");
}

}  // namespace

// Reads a request, then writes the response.
class MetricsEndpoint::Connection {
 public:
  // Takes ownership of `fd`, which must not block.
  explicit Connection(int fd) : fd_(fd) {}
  ~Connection() { close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  pollfd polled() const {
    return {fd_, static_cast<int16_t>(response_.empty() ? POLLIN : POLLOUT), 0};
  }
  bool expired() const { return Clock::now() >= deadline_; }

  // Continues after an event. Returns false if the connection must be closed.
  bool Continue(const MetricsEndpoint& endpoint) {
    return response_.empty() ? Read(endpoint) : Write();
  }

 private:
  bool Read(const MetricsEndpoint& endpoint) {
    char bytes[4096];
    const ssize_t size = recv(fd_, bytes, sizeof(bytes), 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) return false;
    request_.append(bytes, static_cast<size_t>(size));
    if (request_.find("\r\n\r\n") != std::string::npos) {
      response_ = endpoint.Respond(request_);
    } else if (request_.size() > kMaxRequestBytes) {
      response_ = Failure("400 Bad Request");
    } else {
      return true;
    }
    deadline_ = Clock::now() + kResponseTimeout;
    return Write();
  }

  bool Write() {
    const ssize_t size = send(fd_, response_.data() + sent_,
                              response_.size() - sent_, MSG_NOSIGNAL);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<size_t>(size);
    return sent_ < response_.size();
  }

  const int fd_;
  Clock::time_point deadline_ = Clock::now() + kRequestTimeout;
  std::string request_;
  std::string response_;
  size_t sent_ = 0;  // bytes of response_
};

MetricsEndpoint::MetricsEndpoint(std::shared_ptr<MetricRegistry> metrics,
                                 spdlog::logger& log)
    : metrics_(std::move(metrics)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      acceptor_(SideConnectionOptions(), ConnectionReplacement::Default(),
                /*ipv6_prefix=*/64, &log) {}

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<MetricRegistry> metrics,
    spdlog::logger& log) {
  std::unique_ptr<MetricsEndpoint> endpoint(
      new MetricsEndpoint(std::move(metrics), log));
  const auto accept = [self = endpoint.get()](int, int fd) {
    {
      const MutexLock lock(self->mutex_);
      self->accepted_.push_back(fd);
    }
    eventfd_write(self->wake_, 1);
  };
  if (!endpoint->acceptor_.Listen(address, accept)) {
    return CannotBind("serve metrics on", address, endpoint->acceptor_.error());
  }
  endpoint->thread_ = std::thread([self = endpoint.get()] { self->Run(); });
  endpoint->acceptor_.Start();
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() {
  acceptor_.Stop();
  if (thread_.joinable()) {
    stop_ = true;
    eventfd_write(wake_, 1);
    thread_.join();
  }
  close(wake_);
}

std::string MetricsEndpoint::Respond(const std::string& request) const {
  const std::string_view line =
      std::string_view(request).substr(0, request.find('\r'));
  const size_t path = line.find(' ') + 1;
  const size_t version = line.rfind(' ') + 1;
  if (line == "PRI * HTTP/2.0") {
    // A gRPC client, which reports "Failed parsing HTTP/2" after this response.
    return "HTTP/2.0 400 Bad Request\r\n\r\n";
  }
  if (path == 0 || version <= path ||
      !line.substr(version).starts_with("HTTP/1.")) {
    return Failure("400 Bad Request");
  }
  std::string_view target = line.substr(path, version - 1 - path);
  target = target.substr(0, target.find('?'));
  if (target != "/metrics") return Failure("404 Not Found");
  if (line.substr(0, path) != "GET ") return Failure("405 Method Not Allowed");
  return Response("200 OK", "text/plain; version=0.0.4; charset=utf-8",
                  prometheus::TextSerializer().Serialize(metrics_->Collect()));
}

void MetricsEndpoint::Run() {
  std::list<Connection> connections;
  std::vector<pollfd> polled;
  while (!stop_) {
    polled = {{wake_, POLLIN, 0}};
    for (const Connection& connection : connections) {
      polled.push_back(connection.polled());
    }
    poll(polled.data(), polled.size(), connections.empty() ? -1 : kCheckMs);
    size_t i = 0;
    connections.remove_if([&](Connection& connection) {
      const bool ready = polled[++i].revents != 0;
      return (ready && !connection.Continue(*this)) || connection.expired();
    });
    if (polled[0].revents == 0) continue;
    eventfd_t count = 0;
    eventfd_read(wake_, &count);
    std::vector<int> accepted;
    {
      const MutexLock lock(mutex_);
      accepted.swap(accepted_);
    }
    for (const int fd : accepted) connections.emplace_back(fd);
  }
  const MutexLock lock(mutex_);
  for (const int fd : accepted_) close(fd);
}

}  // namespace topk
