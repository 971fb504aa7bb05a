// Defects of gRPC's own listeners, which these replace by public means
// (AddExternalConnectionAcceptor, in 1.51 and in 1.83):
// - They close only with the whole server, so that a draining server still
//   accepts connections. All versions.
// - 1.51 stops listening for good after accept4() failed once because no file
//   descriptor was left (CVE-2023-4785; fixed in 1.53).
// - Nothing limits the connections of a listener (connection_limits.h).
// - 1.51 unlinks whatever socket is at the path of its Unix socket when it
//   closes: that of a successor, which then serves where nobody can connect.
// Tests: acceptor_test.cc, drain_test.cc, successor_test.cc,
// connection_limits_test.py.
// Delete when gRPC has fixed all of them.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <spdlog/logger.h>
#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/grpc_workarounds/connection_limits.h"
#include "server/telemetry/line_limiter.h"
#include "server/transport/connection_options.h"
#include "server/transport/owned_file.h"

namespace topk {

/// Raises this process's limit of file descriptors to the maximum. Returns the
/// limit.
int RaiseDescriptorLimit();

/// Accepts connections on its own listening sockets. Closes connections that
/// would use the last file descriptors, because the rest of the process needs
/// these, and waits if no file descriptor is left.
class Acceptor {
 public:
  /// Takes over the connected socket `fd`, which `listener` accepted.
  using Handler = std::function<void(int listener, int fd)>;

  /// `max_replaced` is the limit of ConnectionReplacement; `options` has those
  /// of ConnectionCounts. Peers that acknowledge nothing for the keepalive
  /// timeout are disconnected. `log` may be null and must outlive the acceptor.
  Acceptor(const ConnectionOptions& options, size_t max_replaced,
           int ipv6_prefix = 64, spdlog::logger* log = nullptr);
  /// Calls Stop().
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Listens at host:port or at unix:path. Port 0 is any free port, and both
  /// 0.0.0.0 and [::] are all addresses of IPv4 and IPv6. `mode` is the file
  /// mode of a Unix socket. Connections wait until Start(). Returns false if
  /// the address cannot be bound; error() then has the reason.
  bool Listen(const std::string& address, Handler handler, mode_t mode = 0600);

  /// Likewise listens for the server that `builder` builds.
  bool Listen(const std::string& address, grpc::ServerBuilder& builder,
              std::shared_ptr<grpc::ServerCredentials> credentials,
              mode_t mode = 0600);

  /// Returns why the last Listen() failed, e.g. "Address already in use".
  const std::string& error() const { return error_; }

  /// Returns the number of connections that were rejected because of a limit or
  /// because they would use the last file descriptors.
  int64_t rejected() const { return rejected_; }

  /// The bound addresses: host:port with the real port, or unix:path.
  const std::vector<std::string>& addresses() const { return addresses_; }

  /// Returns whether file descriptors are left for connections.
  bool CanAccept() const;

  /// Starts a thread that accepts. Call it once the server runs.
  void Start();

  /// Accepts the connections that are waiting and closes the sockets, so that
  /// later attempts to connect are refused. Open connections stay. Call it
  /// before the server shuts down.
  void Stop();

  /// Disconnects all connections: gRPC closes no connection whose client does
  /// not read what was written. Call it after Stop().
  void DisconnectAll() const { replacement_.DisconnectAll(); }

 private:
  class Socket;

  // Returns false if no file descriptor or memory was left.
  bool AcceptAll(const Socket& socket);
  // Returns false if a connection must be closed.
  bool Admit(int fd, const sockaddr& peer);
  void Run();

  const int send_timeout_ms_;
  const int first_reserved_;
  const int ipv6_prefix_;
  spdlog::logger* const log_;
  LineLimiter lines_{1};  // per second
  ConnectionReplacement replacement_;
  ConnectionCounts counts_;
  std::atomic<int64_t> rejected_ = 0;
  const int stop_;  // an eventfd, readable from Stop() on
  std::vector<Socket> sockets_;
  std::vector<OwnedFile> files_;
  std::vector<std::string> addresses_;
  std::string error_;
  std::thread thread_;
};

}  // namespace topk
