// A child process, and what it says.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace topk::testing {

/// A temporary folder, removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();

  /// The path of a file in it.
  std::string File(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Returns a file's content, "" if it does not exist.
std::string ReadFile(const std::string& path);

/// A program that runs until it ends, or is killed on destruction. Its stdout
/// and stderr go to one file.
class Subprocess {
 public:
  /// Starts a program with arguments; `environment` adds NAME=value to ours.
  explicit Subprocess(const std::vector<std::string>& command,
                      const std::vector<std::string>& environment = {});
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;

  /// Its process id.
  pid_t pid() const { return pid_; }

  /// Sends a signal.
  void Signal(int number);

  /// Waits for the end, at most 20 s. Returns the exit status, 128 + the signal
  /// that killed it, or -1 if it runs on.
  int Wait();

  /// Returns its output so far.
  std::string Output() const;

 private:
  /// True once it has ended; its status is then in status_.
  bool Ended();

  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int status_ = -1;
};

}  // namespace topk::testing
