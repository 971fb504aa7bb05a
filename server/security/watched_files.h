// Reloads files, such as certificates and tokens, when they change.
#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/common/small_file.h"
#include "server/threads/periodic.h"
#include "topk/status.h"

namespace topk {

/// Reads files periodically, and loads their contents after a change.
class WatchedFiles {
 public:
  /// Applies the contents of the files. If they are invalid, returns an error,
  /// whose field is the flag of the invalid file, and leaves the previous
  /// contents in effect.
  using Load = std::function<Status(const std::vector<std::string>& contents)>;

  /// Loads the files, or returns an error. A background thread then checks for
  /// changes every second. Logs an error only once, and only if it persists
  /// at the next check, because related files cannot be replaced at the same
  /// instant.
  static Result<std::unique_ptr<WatchedFiles>> Start(
      std::vector<NamedFile> files, Load load, spdlog::logger& log);

  const std::vector<NamedFile>& files() const { return files_; }

  /// Returns whether files()[index] is invalid, so that the previous contents
  /// of all files stay in use. Thread-safe.
  bool Rejects(size_t index) const { return rejected_ == index; }

 private:
  WatchedFiles(std::vector<NamedFile> files, Load load, spdlog::logger& log)
      : files_(std::move(files)), load_(std::move(load)), log_(log) {}

  struct Snapshot {
    std::vector<std::string> contents;
    std::string error;
    bool operator==(const Snapshot&) const = default;
  };

  Status Read(Snapshot& snapshot) const;
  void CheckForChanges();

  const std::vector<NamedFile> files_;
  const Load load_;
  spdlog::logger& log_;
  Snapshot snapshot_;
  bool handled_ = true;  // `snapshot_` was loaded, or its error logged
  // The index of the invalid file, or files_.size() if all are valid.
  std::atomic<size_t> rejected_ = files_.size();
  std::optional<Periodic> check_;
};

}  // namespace topk
