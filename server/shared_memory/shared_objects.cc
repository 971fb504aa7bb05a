#include "server/shared_memory/shared_objects.h"

#include <algorithm>
#include <climits>
#include <iterator>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk {
namespace {

Status CheckName(const std::string& name, const std::string& prefix,
                 const std::string& field) {
  if (name.size() < 2 || name.size() > NAME_MAX || name[0] != '/' ||
      name.find('/', 1) != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return InvalidArgument(
        "SHARED_MEMORY_NAME", field,
        StrCat(Quote(name),
               " is not the name of a shared memory object: a slash "
               "and 1 to ",
               NAME_MAX - 1, " bytes, neither slash nor NUL"));
  }
  if (name.starts_with(prefix)) return {};
  return {Code::kPermissionDenied, "SHARED_MEMORY_PREFIX", field,
          StrCat(Quote(name), " does not begin with ", Quote(prefix),
                 ", as the names that this server allows do")};
}

Status CheckRange(const v1::SharedMemoryRegion& region, int64_t size,
                  const std::string& field) {
  const bool size_is_wrong = region.offset() >= 0 && region.offset() <= size;
  int64_t end = 0;
  if (region.offset() >= 0 && region.byte_size() >= 0 &&
      CheckedAdd(region.offset(), region.byte_size(), &end) && end <= size) {
    return {};
  }
  return InvalidArgument(
      "SHARED_MEMORY_RANGE",
      StrCat(field, size_is_wrong ? ".byte_size" : ".offset"),
      StrCat("offset ", region.offset(), " and byte_size ", region.byte_size(),
             " are not within an object of ", size, " bytes"));
}

}  // namespace

Status SharedRegion::CheckWritten(const std::string& field) const {
  if (object_->HasMemory(offset_, bytes_)) return {};
  return {Code::kFailedPrecondition, "SHARED_MEMORY_HOLE", field,
          StrCat("a part of the object's ", bytes_, " bytes from ", offset_,
                 " on was never written: write the whole tensor first")};
}

Status SharedRegion::Check(const std::string& field) const {
  if (object_->StillHas(offset_ + bytes_)) return {};
  return {
      Code::kFailedPrecondition, "SHARED_MEMORY_CHANGED",
      StrCat(field, ".name"),
      StrCat("the object was truncated, or the system had no memory for its "
             "pages, while its ",
             bytes_, " bytes from ", offset_, " on were used")};
}

SharedObjects::SharedObjects(std::string prefix,
                             std::chrono::milliseconds period)
    : prefix_(std::move(prefix)),
      period_(period),
      let_go_([this](const std::stop_token& stop) { LetGo(stop); }) {}

Result<SharedRegion> SharedObjects::Open(const v1::SharedMemoryRegion& region,
                                         Access access,
                                         const std::string& field) {
  const std::string name_field = StrCat(field, ".name");
  if (Status s = CheckName(region.name(), prefix_, name_field); !s.ok()) {
    return s;
  }
  Result<std::shared_ptr<MappedObject>> opened =
      MappedObject::Open(region.name(), access, name_field);
  if (!opened.ok()) return opened.status();
  if (Status s = CheckRange(region, (*opened)->size(), field); !s.ok()) {
    return s;
  }
  Result<std::shared_ptr<MappedObject>> mapped =
      Map(region.name(), access, *std::move(opened), name_field);
  if (!mapped.ok()) return mapped.status();
  return SharedRegion(*std::move(mapped), region.offset(), region.byte_size());
}

Result<std::shared_ptr<MappedObject>> SharedObjects::Map(
    const std::string& name, Access access,
    std::shared_ptr<MappedObject> opened, const std::string& field) {
  std::shared_ptr<MappedObject> before;  // both unmapped after the lock
  std::shared_ptr<MappedObject> oldest;
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.access == access && entry.name == name;
      });
  if (found != entries_.end()) {
    found->used = ++uses_;
    if (found->object->IsLike(*opened)) return found->object;
    before = std::move(found->object);
    entries_.erase(found);
  }
  if (Status s = opened->Map(field); !s.ok()) return s;
  oldest = MakeRoom();
  if (entries_.size() < kMaxIdle) {
    entries_.push_back({name, access, opened, ++uses_});
    kept_.notify_one();
  }
  return opened;
}

std::shared_ptr<MappedObject> SharedObjects::MakeRoom() {
  if (entries_.size() < kMaxIdle) return nullptr;
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->object.use_count() == 1 &&
        (oldest == entries_.end() || entry->used < oldest->used)) {
      oldest = entry;
    }
  }
  if (oldest == entries_.end()) return nullptr;
  std::shared_ptr<MappedObject> object = std::move(oldest->object);
  entries_.erase(oldest);
  return object;
}

size_t SharedObjects::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void SharedObjects::LetGo(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto any = [this] { return !entries_.empty(); };
  while (kept_.wait(lock, stop, any) && !stop.stop_requested()) {
    std::vector<Entry> gone;
    const auto kept = std::partition(
        entries_.begin(), entries_.end(),
        [](const Entry& entry) { return entry.object->IsNamed(); });
    std::move(kept, entries_.end(), std::back_inserter(gone));
    entries_.erase(kept, entries_.end());
    lock.unlock();
    gone.clear();  // which may take long
    lock.lock();
    kept_.wait_for(lock, stop, period_, [] { return false; });
  }
}

}  // namespace topk
