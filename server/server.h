// A running server with all of its listeners.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/config/config.h"

namespace topk {

/// Serves from Start until it is destroyed.
class Server {
 public:
  /// Binds all addresses and serves, then writes the ready file. An address
  /// that cannot be bound is an error that names it. The logger outlives the
  /// server.
  static Result<std::unique_ptr<Server>> Start(const ServerConfig& config,
                                               spdlog::logger& log);

  /// Checks the files that the settings name. Returns the error that Start
  /// would return.
  static Status Check(const ServerConfig& config, spdlog::logger& log);

  /// Stops at once if Drain was not called.
  ~Server();

  /// The bound addresses: host:port with the real port, or unix:path.
  const std::vector<std::string>& addresses() const;
  /// The bound address of the metrics, or "".
  std::string metrics_address() const;
  /// The bound address of the listener for health checks only, or "".
  std::string health_address() const;
  /// The bound address of channelz, or "".
  std::string admin_address() const;

  /// Sets the health status to NOT_SERVING and keeps serving for `delay`. Then
  /// sends a GOAWAY on all connections, rejects new calls as UNAVAILABLE, and
  /// lets calls in flight finish until `timeout`, after which it cancels them.
  /// Returns when all calls have ended. Call it once.
  void Drain(std::chrono::milliseconds delay,
             std::chrono::milliseconds timeout);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace topk
