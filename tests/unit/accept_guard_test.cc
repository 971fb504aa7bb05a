#include "server/transport/accept_guard.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

namespace topk {
namespace {

// A socket, closed in the end.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  // Whether its peer has hung up, within seconds.
  bool IsClosed() const {
    pollfd ready{fd_, POLLIN, 0};
    char byte;
    return poll(&ready, 1, 10'000) == 1 && recv(fd_, &byte, 1, 0) <= 0;
  }

 private:
  const int fd_;
};

// A listener on a free port, and who connects to it.
class Listener : public Socket {
 public:
  Listener() : Socket(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    EXPECT_EQ(bind(fd(), Address(), size), 0);
    EXPECT_EQ(listen(fd(), 8), 0);
    EXPECT_EQ(getsockname(fd(), Address(), &size), 0);
  }

  void Connect(const Socket& client) {
    EXPECT_EQ(connect(client.fd(), Address(), sizeof(address_)), 0);
  }

  int Accept() const {
    pollfd ready{fd(), POLLIN, 0};
    poll(&ready, 1, 10'000);
    return accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC);
  }

 private:
  sockaddr* Address() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_in address_{};
};

// A listener with a limit of connections, and what it accepted.
class LimitedListener {
 public:
  explicit LimitedListener(size_t max) : before_(ListeningSockets()) {
    listener_.emplace();
    limit_.emplace(ListeningSince(before_), max);
  }

  // Connects a client. Returns the descriptor that was accepted, or -1.
  int Accept(const Socket& client) {
    listener_->Connect(client);
    return listener_->Accept();
  }

 private:
  const std::vector<ListeningSocket> before_;
  std::optional<Listener> listener_;
  std::optional<ConnectionLimit> limit_;
};

Socket NewSocket() { return Socket(socket(AF_INET, SOCK_STREAM, 0)); }

// Returns whether a peer can be sent a byte, which then is there.
bool Reaches(int fd, const Socket& peer) {
  char byte = 0;
  return send(fd, "x", 1, MSG_NOSIGNAL) == 1 &&
         recv(peer.fd(), &byte, 1, 0) == 1;
}

// Leaves no descriptor until it is destroyed.
class NoDescriptor {
 public:
  NoDescriptor() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDIN_FILENO);
    close(next);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next);
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptor() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(AcceptGuard, WithoutADescriptorAConnectionIsClosedAndNotLeftWaiting) {
  EXPECT_GT(GuardAccept(), 0);
  Listener listener;
  for (int i = 0; i < 3; ++i) {
    const Socket client(socket(AF_INET, SOCK_STREAM, 0));
    listener.Connect(client);
    const NoDescriptor none;
    EXPECT_EQ(listener.Accept(), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_TRUE(client.IsClosed());
  }
}

TEST(ConnectionLimit, DisconnectsTheOldestForOneMore) {
  LimitedListener listener(2);
  const Socket clients[3] = {NewSocket(), NewSocket(), NewSocket()};
  const Socket first(listener.Accept(clients[0]));
  const Socket second(listener.Accept(clients[1]));
  EXPECT_TRUE(Reaches(first.fd(), clients[0]));
  const Socket third(listener.Accept(clients[2]));
  EXPECT_TRUE(clients[0].IsClosed());
  EXPECT_TRUE(Reaches(second.fd(), clients[1]));
  EXPECT_TRUE(Reaches(third.fd(), clients[2]));
}

TEST(ConnectionLimit, ClosesNewOnesWhileTheDisconnectedAreOpen) {
  LimitedListener listener(1);
  const Socket clients[3] = {NewSocket(), NewSocket(), NewSocket()};
  std::optional<Socket> first(std::in_place, listener.Accept(clients[0]));
  const Socket second(listener.Accept(clients[1]));
  EXPECT_EQ(listener.Accept(clients[2]), -1);
  EXPECT_TRUE(clients[2].IsClosed());
  EXPECT_TRUE(Reaches(second.fd(), clients[1]));
  first.reset();
  const Socket next = NewSocket();
  const Socket accepted(listener.Accept(next));
  EXPECT_TRUE(Reaches(accepted.fd(), next));
}

TEST(ConnectionLimit, CountsOpenConnectionsAndNoOtherSockets) {
  LimitedListener listener(1);
  Listener other;
  const Socket clients[3] = {NewSocket(), NewSocket(), NewSocket()};
  const int closed = listener.Accept(clients[0]);
  close(closed);
  other.Connect(clients[1]);
  const Socket stranger(other.Accept());
  EXPECT_EQ(stranger.fd(), closed) << "the descriptor is not reused";
  const Socket next(listener.Accept(clients[2]));
  EXPECT_TRUE(Reaches(next.fd(), clients[2]));
  EXPECT_TRUE(Reaches(stranger.fd(), clients[1]));
}

TEST(ConnectionLimit, EndsWithItself) {
  Listener listener;
  const std::vector<ListeningSocket> sockets = ListeningSockets();
  { const ConnectionLimit limit(sockets, 1); }
  const Socket clients[2] = {NewSocket(), NewSocket()};
  listener.Connect(clients[0]);
  const Socket first(listener.Accept());
  listener.Connect(clients[1]);
  const Socket second(listener.Accept());
  EXPECT_TRUE(Reaches(first.fd(), clients[0]));
  EXPECT_TRUE(Reaches(second.fd(), clients[1]));
}

TEST(AcceptGuard, OthersAreAccepted) {
  GuardAccept();
  Listener listener;
  const Socket client(socket(AF_INET, SOCK_STREAM, 0));
  listener.Connect(client);
  const Socket accepted(listener.Accept());
  EXPECT_GE(accepted.fd(), 0);
  EXPECT_EQ(send(accepted.fd(), "x", 1, 0), 1);
  char byte = 0;
  EXPECT_EQ(recv(client.fd(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

}  // namespace
}  // namespace topk
