#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/service/caller.h"
#include "tests/bench/service/wire.h"

namespace topk::bench {
namespace {

int Checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(what);
  return result;
}

// A connection to this very process: the sender's end and the receiver's.
struct Connection {
  Connection() {
    const int listener = Checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    Checked(bind(listener, any, size), "bind");
    Checked(listen(listener, 1), "listen");
    Checked(getsockname(listener, any, &size), "getsockname");
    sender = Checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
    Checked(connect(sender, any, size), "connect");
    receiver = Checked(accept(listener, nullptr, nullptr), "accept");
    close(listener);
    for (const int end : {sender, receiver}) {  // as gRPC does
      const int yes = 1;
      setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    }
  }
  ~Connection() {
    close(sender);
    close(receiver);
  }

  int sender;
  int receiver;
};

class TcpCaller final : public ClosedLoop {
 public:
  explicit TcpCaller(QuestionPtr question)
      : question_(std::move(question)), thread_([this] { Receive(); }) {}
  ~TcpCaller() override {
    shutdown(connection_.sender, SHUT_WR);
    thread_.join();
  }

 private:
  void Call() override {
    const std::span<const std::byte> data = question_->data();
    for (size_t sent = 0; sent < data.size();) {
      const size_t most = std::min(kPieceBytes, data.size() - sent);
      const ssize_t some =
          send(connection_.sender, data.data() + sent, most, MSG_NOSIGNAL);
      if (some <= 0) throw std::runtime_error("send");
      sent += static_cast<size_t>(some);
    }
    char done;
    if (recv(connection_.sender, &done, 1, 0) != 1) {
      throw std::runtime_error("recv");
    }
  }

  // Reads each cache line, which is the least that a user of the tensor does,
  // and returns once all data has arrived.
  void Receive() {
    std::vector<unsigned char> buffer(kPieceBytes);
    [[maybe_unused]] static volatile unsigned char seen = 0;
    int64_t left = question_->bytes();
    while (true) {
      const ssize_t some =
          recv(connection_.receiver, buffer.data(), buffer.size(), 0);
      if (some <= 0) return;
      unsigned char all = 0;
      for (ssize_t i = 0; i < some; i += 64) all |= buffer[i];
      seen = all;
      left -= some;
      if (left > 0) continue;
      left = question_->bytes();
      if (send(connection_.receiver, "", 1, MSG_NOSIGNAL) != 1) return;
    }
  }

  const QuestionPtr question_;
  Connection connection_;
  std::thread thread_;
};

class CommandCaller final : public Caller {
 public:
  CommandCaller(std::string command, QuestionPtr question)
      : command_(std::move(command)), question_(std::move(question)) {}

  double Run(double seconds, std::vector<double>& microseconds) override {
    const std::string command = command_ + " " +
                                std::to_string(question_->bytes()) + " " +
                                std::to_string(seconds);
    FILE* const output = popen(command.c_str(), "r");
    if (output == nullptr) throw std::runtime_error(command);
    double sum = 0;
    double one = 0;
    while (std::fscanf(output, "%lf", &one) == 1) {
      microseconds.push_back(one);
      sum += one;
    }
    if (pclose(output) != 0 || sum == 0) throw std::runtime_error(command);
    return sum / 1e6;  // without the command's own start
  }

 private:
  const std::string command_;
  const QuestionPtr question_;
};

}  // namespace

CallerPtr TcpPeer(QuestionPtr question) {
  return std::make_unique<TcpCaller>(std::move(question));
}

CallerPtr CommandPeer(std::string command, QuestionPtr question) {
  return std::make_unique<CommandCaller>(std::move(command),
                                         std::move(question));
}

}  // namespace topk::bench
