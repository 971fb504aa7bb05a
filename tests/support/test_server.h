// A real server in this process, on a free loopback port.
#pragma once

#include <grpcpp/grpcpp.h>
#include <spdlog/sinks/base_sink.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/server.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk::testing {

/// Keeps the log in memory for the test.
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

/// Returns a logger that writes to the sink at once, on the thread that logs.
std::shared_ptr<spdlog::logger> MakeLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format);

/// Returns the line of a log that says that a poller was busy for too long with
/// one event, or "": 100 ms, ten times that with sanitizers.
std::string BusyPoller(const std::string& log);

/// Returns a new channel without TLS to an address; channels share no
/// connection.
std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address);

/// Serves from its construction to its destruction; aborts if it cannot. The
/// test fails if a poller was busy for too long with one event.
class TestServer {
 public:
  /// Listens on 127.0.0.1:0 unless the config names other addresses, and has
  /// two pollers unless it has another number: a call meets itself there.
  explicit TestServer(ServerConfig config = {},
                      const std::string& log_format = "json");
  ~TestServer();

  Server& server() { return *server_; }
  /// The first address.
  const std::string& target() const { return server_->addresses().front(); }
  /// Returns a new channel to the first address.
  std::shared_ptr<grpc::Channel> Connect() const { return ConnectTo(target()); }
  std::unique_ptr<v1::TopKService::Stub> Stub() const {
    return v1::TopKService::NewStub(Connect());
  }
  /// Returns the server's log, in the config's format.
  std::string Log() const { return log_sink_->Text(); }

 private:
  const std::shared_ptr<LogSink> log_sink_ = std::make_shared<LogSink>();
  std::shared_ptr<spdlog::logger> log_;
  std::unique_ptr<Server> server_;
};

/// Returns an ONNX-11 request for the k largest of f32 values.
v1::TopKRequest OnnxRequest(const std::vector<float>& values, int64_t k);

/// Returns whether the condition holds, asking again for at most 20 s.
bool Eventually(const std::function<bool()>& condition);

/// Returns a socket that is connected to an IPv4 host:port, or -1. A read waits
/// for at most 5 s.
int OpenSocketTo(const std::string& address);

/// Sends an HTTP request to host:port. Returns the response with its headers,
/// up to the server's end of the connection.
std::string HttpExchange(const std::string& address,
                         const std::string& request);

/// Returns the body of an HTTP GET of host:port and path, or "".
std::string HttpGet(const std::string& address, const std::string& path);

}  // namespace topk::testing
