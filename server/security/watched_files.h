// Files that are replaced while the server runs: certificates, tokens.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/security/small_file.h"

namespace topk {

/// Checks files periodically and hands over their contents when they have
/// changed, whatever changed a file: a rename, a symbolic link or a write.
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

  // The contents, or why a file cannot be read.
  struct Seen {
    std::vector<std::string> contents;
    std::string error;
    bool operator==(const Seen&) const = default;
  };

  Status Read(Seen& seen) const;
  std::vector<int64_t> Stamps() const;
  void Look();

  const std::vector<NamedFile> files_;
  const Load load_;
  spdlog::logger& log_;
  Seen seen_;
  // The stamps of seen_.contents, or empty.
  std::vector<int64_t> stamps_;
  bool settled_ = true;  // seen_ is loaded, or its error is logged
  std::jthread thread_;
};

}  // namespace topk
