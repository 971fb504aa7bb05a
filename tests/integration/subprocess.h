// Runs a child process and captures its output.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

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

}  // namespace topk::testing
