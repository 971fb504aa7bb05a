// Runs child processes, such as topkd, and captures their output.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/test_server.h"

namespace topk::testing {

/// A temporary folder, removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();

  std::string File(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Returns the contents of a file, or "" if it does not exist.
std::string ReadFile(const std::string& path);

/// A child process, killed on destruction. stdout and stderr go to one file.
class Subprocess {
 public:
  /// Starts a program with additional environment variables (NAME=value).
  explicit Subprocess(const std::vector<std::string>& command,
                      const std::vector<std::string>& environment = {});
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }

  void Signal(int number);

  /// Waits for the process to end, at most 20 s. Returns the exit status, 128 +
  /// the signal that killed the process, or -1 if it is still running.
  int Wait();

  /// Sends SIGTERM, and returns Wait().
  int Stop();

  /// Returns the output so far.
  std::string Output() const;

 private:
  /// Returns true once the process has ended. Its status is then in status_.
  bool Ended();

  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int status_ = -1;
};

inline constexpr char kTopkd[] = TOPK_BINARY_DIR "/bin/topkd";

/// A topkd with a ready file, on a free port by default.
class Topkd {
 public:
  explicit Topkd(const std::vector<std::string>& flags = {},
                 const std::string& listen = "127.0.0.1:0",
                 const std::vector<std::string>& environment = {})
      : ready_file_(folder_.File("ready.json")) {
    std::vector<std::string> command = {kTopkd, "--listen", listen,
                                        "--ready-file", ready_file_};
    command.insert(command.end(), flags.begin(), flags.end());
    process_.emplace(command, environment);
    // The ready file appears atomically, so it is never incomplete.
    EXPECT_TRUE(Eventually([this] { return !ReadFile(ready_file_).empty(); }))
        << process_->Output();
    ready_ = nlohmann::json::parse(ReadFile(ready_file_), nullptr, false);
  }

  ~Topkd() { EXPECT_EQ(BusyPoller(process_->Output()), ""); }

  /// The first listening address.
  std::string target() const { return ready_["listen"][0]; }
  const nlohmann::json& ready() const { return ready_; }
  const std::string& ready_file() const { return ready_file_; }
  Subprocess& process() { return *process_; }

  /// Polls until the text has been logged. Returns false on timeout.
  bool HasLogged(const std::string& text) {
    return Eventually(
        [&] { return process_->Output().find(text) != std::string::npos; });
  }

 private:
  TemporaryFolder folder_;
  std::string ready_file_;
  std::optional<Subprocess> process_;
  nlohmann::json ready_;
};

/// A loopback port that is in use. Refuses connections unless `listens`.
class TakenPort {
 public:
  explicit TakenPort(bool listens) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(fd_, any, length), 0);
    if (listens) listen(fd_, 1);
    getsockname(fd_, any, &length);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~TakenPort() { close(fd_); }

  int fd() const { return fd_; }

  const std::string& address() const { return address_; }

 private:
  int fd_;
  std::string address_;
};

}  // namespace topk::testing
