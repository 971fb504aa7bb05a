#include "server/security/watched_files.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace topk {

Result<std::unique_ptr<WatchedFiles>> WatchedFiles::Start(
    std::vector<NamedFile> files, Load load, spdlog::logger& log) {
  std::unique_ptr<WatchedFiles> watch(
      new WatchedFiles(std::move(files), std::move(load), log));
  if (Status s = watch->Read(watch->snapshot_); !s.ok()) return s;
  if (Status s = watch->load_(watch->snapshot_.contents); !s.ok()) {
    // The settings are right, and the files may be mended later.
    s.code = Code::kFailedPrecondition;
    return s;
  }
  watch->check_.emplace(std::chrono::seconds(1),
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

void WatchedFiles::CheckForChanges() {
  Snapshot now;
  Status status = Read(now);
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
