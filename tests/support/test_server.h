// Runs a real server in this process on a free loopback port.
#pragma once

#include <grpcpp/grpcpp.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/resource.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/config/config.h"
#include "server/server.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk::testing {

/// Collects the log in memory.
class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  /// Returns all lines so far.
  std::string Text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& msg) override {
    spdlog::memory_buf_t line;
    formatter_->format(msg, line);
    text_.append(line.data(), line.size());
  }
  void flush_() override {}

  std::string text_;
};

/// Returns a logger that writes to `sink` synchronously.
std::shared_ptr<spdlog::logger> MakeLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format);

/// Returns the log line about a poller that was busy with one event for more
/// than 100 ms (1 s with sanitizers), or "".
std::string BusyPoller(const std::string& log);

/// Returns a new insecure channel with its own connection.
std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address);

/// Runs a server while this object exists. Aborts if the server cannot start.
/// The test fails if a poller was busy with one event for too long.
class TestServer {
 public:
  /// Listens on 127.0.0.1:0 unless the config sets other addresses. Runs two
  /// pollers unless the config sets another number.
  explicit TestServer(ServerConfig config = {},
                      const std::string& log_format = "json");
  ~TestServer();

  Server& server() { return *server_; }
  const std::string& target() const { return server_->addresses().front(); }
  /// Returns a new channel to the first listening address.
  std::shared_ptr<grpc::Channel> Connect() const { return ConnectTo(target()); }
  std::unique_ptr<v1::TopKService::Stub> Stub() const {
    return v1::TopKService::NewStub(Connect());
  }
  std::string Log() const { return log_sink_->Text(); }
  /// Polls until the text has been logged. Returns false on timeout.
  bool HasLogged(const std::string& text) const;

 private:
  const std::shared_ptr<LogSink> log_sink_ = std::make_shared<LogSink>();
  std::shared_ptr<spdlog::logger> log_;
  std::unique_ptr<Server> server_;
};

/// Drains a server on another thread, with a timeout of 5 minutes.
inline std::jthread StartDrain(TestServer& server,
                               std::chrono::milliseconds delay = {}) {
  return std::jthread([&server, delay] {
    server.server().Drain(delay, std::chrono::minutes(5));
  });
}

v1::TopKRequest OnnxRequest(const std::vector<float>& values, int64_t k);

/// Polls until the condition holds, for at most 20 s. Returns whether it holds.
bool Eventually(const std::function<bool()>& condition);

/// Limits this process to `max` file descriptors while this object exists.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t max);
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// Connects to host:port, where the host is an IPv4 address or [::1]. Returns
/// -1 on failure. A read times out after `seconds`.
int OpenSocketTo(const std::string& address, int seconds = 60);

/// Sends an HTTP request to host:port. Reads until the server closes the
/// connection or a read times out. Returns the response including its headers.
std::string HttpExchange(const std::string& address, const std::string& request,
                         int seconds = 60);

/// Returns the body of an HTTP GET response, or "" on failure.
std::string HttpGet(const std::string& address, const std::string& path);

}  // namespace topk::testing
