// A running server: everything that listens, and what it listens with.
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

  /// OK if the files that the settings name are what they should be, else what
  /// Start would say.
  static Status Check(const ServerConfig& config, spdlog::logger& log);

  /// Stops at once if Drain was not called.
  ~Server();

  /// The bound addresses: host:port with the real port, or unix:path.
  const std::vector<std::string>& addresses() const;
  /// The bound address of the metrics, or "".
  std::string metrics_address() const;
  /// The bound address of the health checks alone, or "".
  std::string health_address() const;
  /// The bound address of channelz, or "".
  std::string admin_address() const;

  /// Health goes to NOT_SERVING, and calls are served on for the delay. Then
  /// connections are told to go elsewhere, calls on new ones are refused as
  /// UNAVAILABLE, and those under way may finish until the timeout, when they
  /// are cancelled. Returns when all have ended. Call it once.
  void Drain(std::chrono::milliseconds delay,
             std::chrono::milliseconds timeout);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace topk
