// A running server with all of its listeners.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/config/config.h"
#include "topk/status.h"

namespace topk {

/// Serves from Start() until it is destroyed.
class Server {
 public:
  /// Binds all addresses, writes the ready file and starts serving. If an
  /// address cannot be bound, the error names it. `log` must outlive the
  /// result.
  static Result<std::unique_ptr<Server>> Start(const ServerConfig& config,
                                               spdlog::logger& log);

  /// Like Start(), but only checks the settings and the files that they name.
  static Status Check(const ServerConfig& config, spdlog::logger& log);

  /// Stops at once if Drain() was not called.
  ~Server();

  /// The bound addresses: host:port with the real port, or unix:path.
  const std::vector<std::string>& addresses() const;
  /// The bound addresses of the listeners "metrics", "health" and "admin".
  const std::map<std::string, std::string>& side_addresses() const;

  /// Drains the server and blocks until all calls have ended. Call once. Steps
  /// 2 to 4 together take at most `timeout`; then calls in flight are
  /// cancelled.
  ///
  /// 1. Announces the drain: the health status is NOT_SERVING, but calls are
  ///    still served. Ends after `delay`, so that load balancers notice. After
  ///    half of `delay`, ends open ComputeTopKMany and ModelStreamInfer calls
  ///    as in step 3, and sends a GOAWAY on all connections, so that clients
  ///    look for other servers while this server still accepts connections.
  /// 2. Accepts no more connections, ends these calls again, and sends a GOAWAY
  ///    again. Other calls sent before the client receives it are served. Ends
  ///    when no call has arrived for half a second, or after 2 s. From now on,
  ///    also sends a GOAWAY on connections that complete their TLS handshake.
  /// 3. Rejects new calls as UNAVAILABLE, and ends open streams with
  ///    UNAVAILABLE and a retry delay: ComputeTopKMany and ModelStreamInfer
  ///    once the requests that they have received are answered, StreamTopK if
  ///    no message arrives for 5 s, or if the client is still sending 1 s
  ///    before the timeout. Ends when no call is in flight.
  /// 4. Shuts gRPC down. Ends when all connections are closed. The server
  ///    closes them if no call arrives for a moment.
  void Drain(std::chrono::milliseconds delay,
             std::chrono::milliseconds timeout);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace topk
