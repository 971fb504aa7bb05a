// What an operator may ask that callers may not: channelz.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"

namespace grpc {
class Server;
}

namespace topk {

/// A gRPC server with channelz, which tells of every connection and call of
/// this process, and reflection; plain text, until it is destroyed.
class AdminServer {
 public:
  /// Serves at host:port (port 0 = any free one). UNAVAILABLE, naming the
  /// address, if it cannot be bound.
  static Result<std::unique_ptr<AdminServer>> Start(const std::string& address);
  ~AdminServer();

  /// The bound host:port.
  const std::string& address() const { return address_; }

 private:
  AdminServer(std::unique_ptr<grpc::Server> server, std::string address);

  const std::unique_ptr<grpc::Server> server_;
  const std::string address_;
};

}  // namespace topk
