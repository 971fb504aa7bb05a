// Files that are replaced while the server runs: certificates, tokens.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/security/small_file.h"

namespace topk {

/// Reads files again and again, and hands over what they hold when that has
/// changed. Compares contents: whatever replaces a file (a rename, a symbolic
/// link's change, a write) is seen, and the files are small.
class WatchedFiles {
 public:
  /// Applies the files' contents. If they are not valid, returns the error and
  /// keeps the previous contents in effect.
  using Load = std::function<Status(const std::vector<std::string>& contents)>;

  /// Loads the files, or returns the error. Then checks them for changes once
  /// per interval, on a background thread, until destroyed. An error is logged
  /// once, if it persists at the next check: files that belong together cannot
  /// be replaced at the same moment.
  static Result<std::unique_ptr<WatchedFiles>> Start(
      std::vector<NamedFile> files, Load load, spdlog::logger& log,
      std::chrono::milliseconds interval = std::chrono::seconds(1));

 private:
  WatchedFiles(std::vector<NamedFile> files, Load load, spdlog::logger& log)
      : files_(std::move(files)), load_(std::move(load)), log_(log) {}

  // The contents, or why one of them cannot be had.
  struct Seen {
    std::vector<std::string> contents;
    std::string error;
    bool operator==(const Seen&) const = default;
  };

  Status Read(Seen& seen) const;
  void Look();

  const std::vector<NamedFile> files_;
  const Load load_;
  spdlog::logger& log_;
  Seen seen_;
  bool settled_ = true;  // what was seen is loaded, or its error is logged
  std::jthread thread_;
};

}  // namespace topk
