#include "server/grpc_workarounds/acceptor.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "core/base/text.h"
#include "core/common/process_limits.h"
#include "server/transport/addresses.h"

namespace topk {
namespace {

// Descriptors reserved for shared memory, files and metrics connections.
constexpr int kReservedDescriptors = 96;
// How long to pause accepting when out of descriptors or memory.
constexpr int kPauseMs = 100;
constexpr int kMaxBindAttempts = 16;
// How long Stop() may continue to accept connections that are already waiting.
constexpr std::chrono::milliseconds kMaxStopTime{500};
constexpr std::string_view kUnix = "unix:";

// Returns the lowest reserved descriptor, which connections must not use. The
// kernel always returns the lowest free descriptor, so a connection gets a
// reserved descriptor only if all lower descriptors are in use.
int FirstReserved() {
  const auto max =
      static_cast<int>(std::min<rlim_t>(DescriptorLimit(), INT_MAX));
  return std::max(max - kReservedDescriptors, max / 2);
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  in_port_t& port() {
    return storage.ss_family == AF_INET6
               ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
               : reinterpret_cast<sockaddr_in*>(&storage)->sin_port;
  }
};

SocketAddress UnixAddress(const std::string& path) {
  SocketAddress address;
  auto* to = reinterpret_cast<sockaddr_un*>(&address.storage);
  to->sun_family = AF_UNIX;
  path.copy(to->sun_path, sizeof(to->sun_path) - 1);
  address.size = sizeof(*to);
  return address;
}

bool HasIpv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  close(fd);
  return fd >= 0;
}

Status CannotListen(const std::string& address, const std::string& why) {
  return {Code::kUnavailable, "LISTEN", "",
          StrCat("cannot listen on ", address, ": ", why)};
}

// Returns the addresses of host:port.
Result<std::vector<SocketAddress>> Resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "0.0.0.0" || host == "*" || host == "::") {
    host = HasIpv6() ? "::" : "0.0.0.0";
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(
      host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (failure != 0) return CannotListen(address, gai_strerror(failure));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& to = addresses.emplace_back();
    to.size = one->ai_addrlen;
    std::memcpy(&to.storage, one->ai_addr, one->ai_addrlen);
  }
  freeaddrinfo(found);
  return addresses;
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

// Returns a bound socket, or -1 with errno set.
int Bind(const SocketAddress& address, const ConnectionOptions& options) {
  const int family = address.storage.ss_family;
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (family != AF_UNIX) {
    SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (options.shares_ports) SetOption(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    // Accepted sockets inherit the options below.
    if (options.socket_buffer_bytes > 0) {
      SetOption(fd, SOL_SOCKET, SO_RCVBUF, options.socket_buffer_bytes);
      SetOption(fd, SOL_SOCKET, SO_SNDBUF, options.socket_buffer_bytes);
    }
    SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
              static_cast<int>(std::ceil(options.keepalive_timeout * 1000)));
  }
  if (family == AF_INET6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd, address.get(), address.size) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// Locks the folder of a socket while a server replaces the socket. Otherwise,
// another server could remove the new socket before it listens.
class FolderLock {
 public:
  explicit FolderLock(const std::string& socket)
      : fd_(open((std::filesystem::path(socket).parent_path() / ".").c_str(),
                 O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    // Continue without the lock after 1 s, because every user who can read the
    // folder can lock it.
    for (int i = 0; i < 100 && flock(fd_, LOCK_EX | LOCK_NB) != 0; ++i) {
      if (errno != EWOULDBLOCK) return;  // e.g. the folder is not readable
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~FolderLock() { close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int fd_;
};

// Removes the socket file of a server that was killed.
void RemoveStaleSocket(const std::string& path, const SocketAddress& address) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  // ECONNREFUSED means that no process listens on the socket. After any other
  // error, the socket may be in use, e.g. with a full backlog.
  if (fd >= 0 && connect(fd, address.get(), address.size) != 0 &&
      errno == ECONNREFUSED) {
    unlink(path.c_str());
  }
  close(fd);
}

}  // namespace

int RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(DescriptorLimit(), INT_MAX));
}

class Acceptor::Socket {
 public:
  // Takes ownership of `fd`.
  Socket(int fd, Handler handler) : fd_(fd), handler_(std::move(handler)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(Socket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        handler_(std::move(other.handler_)) {}
  Socket& operator=(Socket&&) = delete;

  int fd() const { return fd_; }
  void Handle(int connection) const { handler_(fd_, connection); }

 private:
  int fd_;
  Handler handler_;
};

Acceptor::Acceptor(const ConnectionOptions& options, int ipv6_prefix,
                   spdlog::logger* log)
    : options_(options),
      first_reserved_(FirstReserved()),
      ipv6_prefix_(ipv6_prefix),
      log_(log),
      limits_(options),
      stop_(eventfd(0, EFD_CLOEXEC)) {}

Acceptor::~Acceptor() {
  Stop();
  close(stop_);
}

Status Acceptor::Listen(const std::string& address, Handler handler,
                        mode_t mode) {
  if (!address.starts_with(kUnix)) return ListenOnPort(address, handler);
  const std::string path = address.substr(kUnix.size());
  const SocketAddress bound = UnixAddress(path);
  const FolderLock lock(path);
  RemoveStaleSocket(path, bound);
  const int fd = Bind(bound, options_);
  if (fd < 0) return CannotListen(address, std::strerror(errno));
  sockets_.emplace_back(fd, std::move(handler));
  files_.emplace_back(path,
                      open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  addresses_.push_back(address);
  // Set the mode before listen(), because clients can connect afterwards.
  if (chmod(path.c_str(), mode) != 0 || listen(fd, SOMAXCONN) != 0) {
    return CannotListen(address, std::strerror(errno));
  }
  return {};
}

Status Acceptor::ListenOnPort(const std::string& address,
                              const Handler& handler) {
  const auto addresses = Resolve(address);
  if (!addresses.ok()) return addresses.status();
  Status status;
  // Retry, because a port that is free on one address may be in use on another.
  for (int attempt = 0; attempt < kMaxBindAttempts; ++attempt) {
    std::vector<Socket> sockets;
    in_port_t port = 0;
    for (SocketAddress one : *addresses) {
      const bool chosen = one.port() == 0;
      if (chosen) one.port() = port;
      const int fd = Bind(one, options_);
      if (fd >= 0) sockets.emplace_back(fd, handler);
      if (fd < 0 || listen(fd, SOMAXCONN) != 0 ||
          getsockname(fd, one.get(), &one.size) != 0) {
        const int failure = errno;
        status = CannotListen(address, std::strerror(failure));
        // Skip an address that this machine lacks, e.g. because IPv6 is
        // disabled. The other addresses of the host name suffice.
        if (fd < 0 && (failure == EAFNOSUPPORT || failure == EADDRNOTAVAIL)) {
          continue;
        }
        if (!chosen) return status;
        sockets.clear();
        break;
      }
      port = one.port();
    }
    if (sockets.empty()) continue;
    std::ranges::move(sockets, std::back_inserter(sockets_));
    addresses_.push_back(
        StrCat(address.substr(0, address.rfind(':') + 1), ntohs(port)));
    return {};
  }
  return status;
}

Status Acceptor::Listen(const std::string& address,
                        grpc::ServerBuilder& builder,
                        std::shared_ptr<grpc::ServerCredentials> credentials,
                        mode_t mode) {
  using Experimental = grpc::ServerBuilder::experimental_type;
  using Grpc = grpc::experimental::ExternalConnectionAcceptor;
  const std::shared_ptr<Grpc> grpc =
      builder.experimental().AddExternalConnectionAcceptor(
          Experimental::ExternalConnectionType::FROM_FD,
          std::move(credentials));
  return Listen(
      address,
      [grpc](int listener, int fd) {
        Grpc::NewConnectionParameters connection;
        connection.listener_fd = listener;  // 1.83 rejects -1
        connection.fd = fd;
        grpc->HandleNewConnection(&connection);
      },
      mode);
}

void Acceptor::Start(std::function<void()> pace) {
  thread_ = std::thread([this, pace = std::move(pace)] { Run(pace); });
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
  // Remove the files while their sockets still listen: a server that starts now
  // replaces only sockets on which nobody listens.
  files_.clear();
  sockets_.clear();
}

bool Acceptor::Admit(int fd, const std::string& client, bool is_ip) {
  const std::string refusal =
      fd >= first_reserved_
          ? StrCat("too few free file descriptors (limit on open files = ",
                   DescriptorLimit(), ")")
          : limits_.Admit(fd, is_ip ? client : "");
  if (refusal.empty()) return true;
  ++rejected_;
  if (log_ == nullptr) return false;
  if (const auto unlogged = lines_.Pass()) {
    log_->warn("connection from {} rejected: {}{}", client, refusal,
               *unlogged == 0
                   ? ""
                   : StrCat("; ", *unlogged, " earlier rejections not logged"));
  }
  return false;
}

bool Acceptor::Accept(const Socket& socket) {
  constexpr int kMaxAccepted = 2048;
  for (int i = 0; i < kMaxAccepted; ++i) {
    SocketAddress peer;
    peer.size = sizeof(peer.storage);
    const int fd = accept4(socket.fd(), peer.get(), &peer.size,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      const std::string client =
          NetworkOf(AddressOf(*peer.get()), ipv6_prefix_);
      if (Admit(fd, client, peer.storage.ss_family != AF_UNIX)) {
        waiting_.emplace(turn_ + waiting_of_[client]++,
                         Connection{&socket, fd, client});
      } else {
        close(fd);
      }
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
               errno == ENOMEM) {
      return false;
    } else if (errno == EAGAIN || errno == EBADF || errno == EINVAL) {
      return true;
    }  // otherwise, the client has already disconnected
  }
  return true;
}

void Acceptor::HandleNext() {
  const auto next = waiting_.begin();
  const Connection& connection = next->second;
  turn_ = next->first;
  const auto count = waiting_of_.find(connection.client);
  if (--count->second == 0) waiting_of_.erase(count);
  connection.socket->Handle(connection.fd);
  waiting_.erase(next);
}

void Acceptor::Run(const std::function<void()>& pace) {
  // Handle only a few at a time, because a connection may bring hundreds of
  // calls.
  constexpr int kMaxHandled = 2;
  std::vector<pollfd> polled = {{stop_, POLLIN, 0}};
  for (const Socket& socket : sockets_) {
    polled.push_back({socket.fd(), POLLIN, 0});
  }
  bool pause = false;
  auto end = std::chrono::steady_clock::time_point::max();  // until Stop()
  while (std::chrono::steady_clock::now() < end) {
    const int timeout = !waiting_.empty() ? 0 : pause ? kPauseMs : -1;
    poll(polled.data(), pause ? 1 : polled.size(), timeout);
    if (polled[0].revents != 0) {
      end = std::min(end, std::chrono::steady_clock::now() + kMaxStopTime);
      const bool pending =
          std::any_of(polled.begin() + 1, polled.end(),
                      [](const pollfd& socket) { return socket.revents != 0; });
      if (waiting_.empty() && (pause || !pending)) return;
    }
    pause = false;
    for (const Socket& socket : sockets_) {
      if (!Accept(socket)) pause = true;
    }
    int handled = 0;
    for (; handled < kMaxHandled && !waiting_.empty(); ++handled) HandleNext();
    if (handled > 0 && pace) pace();
  }
  for (const auto& [turn, connection] : waiting_) close(connection.fd);
}

}  // namespace topk
