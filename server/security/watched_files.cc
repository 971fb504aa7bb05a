#include "server/security/watched_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace topk {

Result<std::unique_ptr<WatchedFiles>> WatchedFiles::Start(
    std::vector<NamedFile> files, Load load, spdlog::logger& log,
    std::chrono::milliseconds interval) {
  std::unique_ptr<WatchedFiles> watch(
      new WatchedFiles(std::move(files), std::move(load), log));
  if (Status s = watch->Read(watch->snapshot_); !s.ok()) return s;
  if (Status s = watch->load_(watch->snapshot_.contents); !s.ok()) return s;
  watch->check_.emplace(interval,
                        [self = watch.get()] { self->CheckForChanges(); });
  return watch;
}

Status WatchedFiles::Read(Snapshot& snapshot) const {
  for (const NamedFile& file : files_) {
    Result<std::string> content = ReadSmallFile(file);
    if (!content.ok()) {
      snapshot.error = content.status().message;
      return content.status();
    }
    snapshot.contents.push_back(*std::move(content));
  }
  return {};
}

// Returns numbers that change whenever a file changes. Returns an empty vector
// if a file is missing, or if its last change is so recent that the next change
// might get the same timestamps.
std::vector<int64_t> WatchedFiles::Stamps() const {
  constexpr std::time_t kMaxTimestampUnit = 2;  // seconds, on FAT
  std::vector<int64_t> stamps;
  for (const NamedFile& file : files_) {
    struct stat info {};
    if (stat(file.path.c_str(), &info) != 0 ||
        info.st_ctim.tv_sec + kMaxTimestampUnit >= std::time(nullptr)) {
      return {};
    }
    for (const auto number :
         {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino),
          int64_t{info.st_size}, int64_t{info.st_mtim.tv_sec},
          int64_t{info.st_mtim.tv_nsec}, int64_t{info.st_ctim.tv_sec},
          int64_t{info.st_ctim.tv_nsec}}) {
      stamps.push_back(number);
    }
  }
  return stamps;
}

void WatchedFiles::CheckForChanges() {
  std::vector<int64_t> stamps = Stamps();
  if (handled_ && !stamps.empty() && stamps == stamps_) return;
  Snapshot now;
  Status status = Read(now);
  stamps_ = status.ok() ? std::move(stamps) : std::vector<int64_t>();
  const bool changed = now != snapshot_;
  if (!changed && handled_) return;
  if (status.ok()) status = load_(now.contents);
  handled_ = status.ok() || !changed;
  snapshot_ = std::move(now);
  if (!handled_) return;
  if (status.ok()) {
    rejected_ = files_.size();
    return;
  }
  const auto invalid =
      std::ranges::find(files_, status.field, &NamedFile::flag);
  rejected_ = invalid == files_.end()
                  ? 0
                  : static_cast<size_t>(invalid - files_.begin());
  log_.error("{}; the previous content stays in use", status.message);
}

}  // namespace topk
