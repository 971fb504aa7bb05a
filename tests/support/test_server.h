// A real server in this process, on a free loopback port.
#pragma once

#include <grpcpp/grpcpp.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>

#include "server/config.h"
#include "server/server.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk::testing {

/// Serves from its construction to its destruction; aborts if it cannot.
class TestServer {
 public:
  /// Listens on 127.0.0.1:0 unless the config names other addresses.
  explicit TestServer(ServerConfig config = LoopbackConfig());

  static ServerConfig LoopbackConfig();

  Server& server() { return *server_; }
  /// The first address.
  const std::string& target() const { return server_->addresses().front(); }
  /// A channel of its own to the first address.
  std::shared_ptr<grpc::Channel> Connect() const;
  std::unique_ptr<v1::TopKService::Stub> Stub() const {
    return v1::TopKService::NewStub(Connect());
  }
  /// What the server has logged, in the config's format.
  std::string Log() const { return log_text_.str(); }

 private:
  std::ostringstream log_text_;
  std::shared_ptr<spdlog::logger> log_;
  std::unique_ptr<Server> server_;
};

/// Returns an ONNX-11 request for the k largest of f32 values.
v1::TopKRequest OnnxRequest(const std::vector<float>& values, int64_t k);

/// Returns the body of an HTTP GET of host:port and path, or "".
std::string HttpGet(const std::string& address, const std::string& path);

}  // namespace topk::testing
