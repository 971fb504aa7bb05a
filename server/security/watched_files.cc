#include "server/security/watched_files.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace topk {

Result<std::unique_ptr<WatchedFiles>> WatchedFiles::Start(
    std::vector<NamedFile> files, Load load, spdlog::logger& log,
    std::chrono::milliseconds interval) {
  std::unique_ptr<WatchedFiles> watch(
      new WatchedFiles(std::move(files), std::move(load), log));
  if (Status s = watch->Read(watch->seen_); !s.ok()) return s;
  if (Status s = watch->load_(watch->seen_.contents); !s.ok()) return s;
  watch->thread_ =
      std::jthread([self = watch.get(), interval](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          stopped.wait_for(lock, stop, interval, [] { return false; });
          if (!stop.stop_requested()) self->Look();
        }
      });
  return watch;
}

Status WatchedFiles::Read(Seen& seen) const {
  for (const NamedFile& file : files_) {
    Result<std::string> content = ReadSmallFile(file);
    if (!content.ok()) {
      seen.error = content.status().message;
      return content.status();
    }
    seen.contents.push_back(*std::move(content));
  }
  return {};
}

void WatchedFiles::Look() {
  Seen now;
  Status status = Read(now);
  const bool changed = now != seen_;
  if (!changed && settled_) return;
  if (status.ok()) status = load_(now.contents);
  settled_ = status.ok() || !changed;
  seen_ = std::move(now);
  if (!status.ok() && settled_) {
    log_.error("{}; the previous content stays in use", status.message);
  }
}

}  // namespace topk
