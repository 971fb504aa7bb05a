#include "server/grpc_workarounds/acceptor.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "tests/integration/subprocess.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::ElementsAre;

// Owns a socket.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Returns a socket connected to a port on the loopback address, or -1.
int Connect(const std::string& port) {
  return OpenSocketTo(StrCat("127.0.0.1:", port));
}

// An acceptor that collects the connections it accepts.
class Accepting {
 public:
  Accepting() : acceptor_(ConnectionOptions{}) {
    const Status status = acceptor_.Listen("127.0.0.1:0", [this](int, int fd) {
      const std::lock_guard lock(mutex_);
      accepted_.push_back(fd);
      changed_.notify_all();
    });
    EXPECT_TRUE(status.ok()) << status.message;
  }

  ~Accepting() {
    acceptor_.Stop();
    while (taken_ < accepted_.size()) close(accepted_[taken_++]);
  }

  Acceptor& acceptor() { return acceptor_; }

  std::string port() const {
    const std::string& address = acceptor_.addresses().front();
    return address.substr(address.rfind(':') + 1);
  }

  // Returns the descriptor of the next connection, or -1 if none arrives.
  int Next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(10),
                           [&] { return taken_ < accepted_.size(); })) {
      return -1;
    }
    return accepted_[taken_++];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> accepted_;
  size_t taken_ = 0;
  Acceptor acceptor_;
};

int FreeDescriptor() {
  const int next = dup(STDIN_FILENO);
  close(next);
  return next;
}

// Returns whether a byte sent on `fd` arrives at the peer.
bool Reaches(int fd, const Socket& peer) {
  char byte = 0;
  return send(fd, "x", 1, MSG_NOSIGNAL) == 1 &&
         recv(peer.fd(), &byte, 1, 0) == 1;
}

TEST(Acceptor, FailsIfAnotherProcessHasThePortOfOneFamily) {
  const Socket holder(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int only = 1;
  setsockopt(holder.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  socklen_t size = sizeof(any);
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  if (bind(holder.fd(), address, size) != 0 || listen(holder.fd(), 1) != 0) {
    GTEST_SKIP() << "there is no IPv6";
  }
  ASSERT_EQ(getsockname(holder.fd(), address, &size), 0);
  Acceptor acceptor(ConnectionOptions{});
  for (const std::string host : {"0.0.0.0:", "[::]:"}) {
    const std::string wrong = host + std::to_string(ntohs(any.sin6_port));
    EXPECT_EQ(acceptor.Listen(wrong, [](int, int) {}).message,
              StrCat("cannot listen on ", wrong, ": Address already in use"));
  }
}

TEST(Acceptor, FailsForAddressesThatItCannotBind) {
  Acceptor acceptor(ConnectionOptions{});
  for (const auto& [wrong, error] :
       std::initializer_list<std::pair<std::string, const char*>>{
           {"192.0.2.1:0", "Cannot assign requested address"},
           {"no.such.host.invalid:0", ""},
           {"unix:/no/such/folder/socket", "No such file or directory"}}) {
    EXPECT_THAT(
        acceptor.Listen(wrong, [](int, int) {}).message,
        ::testing::HasSubstr(StrCat("cannot listen on ", wrong, ": ", error)));
  }
}

TEST(Acceptor, AcceptsPendingConnectionsWhenItStops) {
  Accepting accepting;
  const std::string port = accepting.port();
  std::vector<std::unique_ptr<Socket>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<Socket>(Connect(port)));
  }
  accepting.acceptor().Start();
  accepting.acceptor().Stop();
  for (const auto& client : clients) {
    const Socket accepted(accepting.Next());
    ASSERT_TRUE(Reaches(accepted.fd(), *client));
  }
  EXPECT_EQ(Connect(port), -1);
}

TEST(Acceptor, OneOfManyServersReplacesTheSocketOfAKilledServer) {
  const std::string path = StrCat(::testing::TempDir(), "acceptor", getpid());
  const auto listen = [&](Acceptor& acceptor) {
    const auto close_it = [](int, int fd) { close(fd); };
    return acceptor.Listen(StrCat("unix:", path), close_it).ok();
  };
  for (int round = 0; round < 100; ++round) {
    const Socket killed(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{AF_UNIX, {}};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(killed.fd(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
    std::deque<Acceptor> acceptors;
    for (int i = 0; i < 4; ++i) acceptors.emplace_back(ConnectionOptions{});
    std::atomic<int> listening = 0;
    {
      std::vector<std::jthread> threads;
      for (Acceptor& acceptor : acceptors) {
        threads.emplace_back([&] { listening += listen(acceptor); });
      }
    }
    ASSERT_EQ(listening, 1);
  }
}

// Connects to `address` from the IPv4 address `client`, and disconnects.
void ConnectFrom(const std::string& client, const std::string& address) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto call = [&](auto* function, const std::string& host, int port) {
    sockaddr_in to{AF_INET, htons(static_cast<uint16_t>(port)), {}, {}};
    inet_pton(AF_INET, host.c_str(), &to.sin_addr);
    EXPECT_EQ(function(socket.fd(), reinterpret_cast<const sockaddr*>(&to),
                       sizeof(to)),
              0);
  };
  call(bind, client, 0);
  call(connect, "127.0.0.1", std::stoi(address.substr(address.rfind(':') + 1)));
}

TEST(Acceptor, HandlesTheConnectionsOfClientsInTurn) {
  std::vector<std::string> clients;
  Acceptor acceptor(ConnectionOptions{});
  const Status status = acceptor.Listen("127.0.0.1:0", [&clients](int, int fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size);
    clients.emplace_back(inet_ntoa(peer.sin_addr));
    close(fd);
  });
  ASSERT_TRUE(status.ok()) << status.message;
  for (const char* client : {"127.0.0.1", "127.0.0.1", "127.0.0.3", "127.0.0.1",
                             "127.0.0.2", "127.0.0.3"}) {
    ConnectFrom(client, acceptor.addresses().back());
  }
  acceptor.Start();
  acceptor.Stop();
  EXPECT_THAT(clients, ElementsAre("127.0.0.1", "127.0.0.3", "127.0.0.2",
                                   "127.0.0.1", "127.0.0.3", "127.0.0.1"));
}

TEST(Acceptor, ResumesWhenFileDescriptorsAreFreeAgain) {
  Accepting accepting;
  std::optional<Socket> client(std::in_place, Connect(accepting.port()));
  {
    const DescriptorLimit none(static_cast<rlim_t>(FreeDescriptor()));
    accepting.acceptor().Start();
    // No connection is accepted while no descriptor is left.
    pollfd ready{client->fd(), POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 150), 0);
  }
  const Socket accepted(accepting.Next());
  EXPECT_TRUE(Reaches(accepted.fd(), *client));
}

TEST(ConnectionLimits, CountOpenConnectionsAndNoOtherSockets) {
  ConnectionOptions options;
  options.max_replaced = 1;
  ConnectionLimits limit(options);
  int pairs[3][2];
  for (auto& pair : pairs) {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  }
  EXPECT_EQ(limit.Admit(pairs[0][0], ""), "");
  // Reuse the descriptor of the closed connection for another socket.
  close(pairs[0][0]);
  ASSERT_EQ(dup2(pairs[1][0], pairs[0][0]), pairs[0][0]);
  EXPECT_EQ(limit.Admit(pairs[2][0], ""), "");
  EXPECT_TRUE(Reaches(pairs[0][0], Socket(dup(pairs[1][1]))));
  for (const auto& pair : pairs) {
    close(pair[0]);
    close(pair[1]);
  }
}

}  // namespace
}  // namespace topk::testing
