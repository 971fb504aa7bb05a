// Defects of gRPC's own listeners, which the acceptor replaces through a public
// API (AddExternalConnectionAcceptor, in 1.51 and in 1.83):
// - Listeners close only with the whole server, so a draining server still
//   accepts connections. All versions.
// - 1.51 stops listening for good after one accept4() fails for lack of file
//   descriptors (CVE-2023-4785; fixed in 1.53).
// - The number of connections per client is not limited, nor in 1.51 the total
//   (see connection_limits.h).
// - When 1.51 closes a Unix socket, it unlinks whatever file is at the socket's
//   path, even the socket of a successor. Nobody can then reach the successor.
// Tests: acceptor_test.cc, drain_test.cc, process_test.cc,
// connection_limits_test.py.
// Delete when gRPC has fixed all of these.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <spdlog/logger.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/grpc_workarounds/connection_limits.h"
#include "server/telemetry/line_limiter.h"
#include "server/transport/connection_options.h"
#include "server/transport/owned_file.h"
#include "topk/status.h"

namespace topk {

/// Raises the limit on file descriptors to the maximum. Returns the new limit.
int RaiseDescriptorLimit();

/// Accepts connections on its own listening sockets. Closes connections that
/// would use the highest file descriptors, which are reserved for the rest of
/// the process. Pauses while the process is out of file descriptors. Serves the
/// connections of different clients in turn, so that a client that opens
/// thousands of connections does not keep others waiting.
class Acceptor {
 public:
  /// Takes ownership of the connected socket `fd`, accepted on `listener`.
  using Handler = std::function<void(int listener, int fd)>;

  /// IPv6 addresses that share the first `ipv6_prefix` bits are one client.
  /// Peers that acknowledge no data are disconnected after the keepalive
  /// timeout in `options`. If `log` is not null, it must outlive this object.
  explicit Acceptor(const ConnectionOptions& options, int ipv6_prefix = 64,
                    spdlog::logger* log = nullptr);
  /// Calls Stop().
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Listens on host:port or unix:path. Port 0 picks a free port. 0.0.0.0 and
  /// [::] each mean all IPv4 and IPv6 addresses, or all IPv4 addresses if the
  /// kernel has no IPv6. `mode` is the file mode of a Unix socket. Connections
  /// are not accepted before Start(). Returns UNAVAILABLE, with the address and
  /// the system's error, if the address cannot be bound. REQUIRES: a Unix path
  /// has 1 to 107 bytes.
  Status Listen(const std::string& address, Handler handler,
                mode_t mode = 0600);

  /// Like Listen() above, but the server built by `builder` serves connections.
  Status Listen(const std::string& address, grpc::ServerBuilder& builder,
                std::shared_ptr<grpc::ServerCredentials> credentials,
                mode_t mode = 0600);

  /// Returns the number of connections rejected because of a limit.
  int64_t rejected() const { return rejected_; }

  /// Bound addresses: host:port with the actual port, or unix:path.
  const std::vector<std::string>& addresses() const { return addresses_; }

  /// Starts the accept thread. Call after the server has started. The thread
  /// calls `pace` after every few connections. `pace` may block to let the
  /// server serve these connections before the thread accepts more.
  void Start(std::function<void()> pace = {});

  /// Accepts the connections already waiting, for at most 0.5 s, then closes
  /// the listening sockets so that later attempts to connect are refused.
  /// Established connections stay open. Call before the server shuts down.
  void Stop();

  /// Disconnects all connections. Necessary because gRPC keeps a connection
  /// open until the client has read all pending data. Call after Stop().
  void DisconnectAll() const { limits_.DisconnectAll(); }

 private:
  class Socket;
  struct Connection {
    const Socket* socket;
    int fd;
    std::string client;
  };

  Status ListenOnPort(const std::string& address, const Handler& handler);
  // Accepts pending connections. Returns false if out of resources.
  bool Accept(const Socket& socket);
  // Returns whether a limit allows the connection. If not, logs the limit.
  bool Admit(int fd, const std::string& client, bool is_ip);
  // Passes a waiting connection to the handler.
  void HandleNext();
  void Run(const std::function<void()>& pace);

  const ConnectionOptions options_;
  const int first_reserved_;
  const int ipv6_prefix_;
  spdlog::logger* const log_;
  LineLimiter lines_{1};  // per second
  ConnectionLimits limits_;
  // Accepted connections that wait for the handler, by turn. Each client has at
  // most about one connection per turn. Turns by client name would let a sweep
  // of increasing addresses keep a new client waiting.
  std::multimap<int64_t, Connection> waiting_;
  std::unordered_map<std::string, int64_t> waiting_of_;  // by client
  int64_t turn_ = 0;  // of the connection that was last handled
  std::atomic<int64_t> rejected_ = 0;
  const int stop_;  // eventfd, readable once Stop() is called
  std::vector<Socket> sockets_;
  std::vector<OwnedFile> files_;
  std::vector<std::string> addresses_;
  std::thread thread_;
};

}  // namespace topk
