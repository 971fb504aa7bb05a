#include "server/shared_memory/shared_objects.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/text.h"
#include "core/common/object_name.h"

namespace topk {
namespace {

Status CheckName(const std::string& name, const std::string& prefix,
                 const std::string& field) {
  if (Status s = CheckObjectName(name, field); !s.ok()) return s;
  if (name.starts_with(prefix)) return {};
  return {Code::kPermissionDenied, "SHARED_MEMORY_PREFIX", field,
          StrCat(Quote(name), " does not begin with ", Quote(prefix),
                 " (--shared-memory-prefix)")};
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
      StrCat("the region with offset ", region.offset(), " and byte_size ",
             region.byte_size(), " is not within the object of ", size,
             " bytes"));
}

}  // namespace

Result<SharedRegion::Bytes> SharedRegion::Copy(
    const std::string& field, const Cancellation* cancellation) const {
  constexpr int64_t kStepBytes = int64_t{16} << 20;  // a few milliseconds
  Bytes copy;
  copy.reserve(static_cast<size_t>(bytes_));
  for (int64_t done = 0; done < bytes_; done += kStepBytes) {
    if (IsCancelled(cancellation)) return Cancelled();
    const auto end = static_cast<size_t>(std::min(done + kStepBytes, bytes_));
    copy.resize(end);
    if (!object_->Read(offset_ + done,
                       std::span(copy).subspan(static_cast<size_t>(done)))) {
      return Changed(field);
    }
  }
  return copy;
}

Result<std::span<std::byte>> SharedRegion::Map(const std::string& field) const {
  const auto mapped = object_->Map(StrCat(field, ".name"));
  if (!mapped.ok()) return mapped.status();
  return mapped->subspan(static_cast<size_t>(offset_),
                         static_cast<size_t>(bytes_));
}

Status SharedRegion::CheckIntact(const std::string& field) const {
  return object_->StillHas(offset_ + bytes_) ? Status() : Changed(field);
}

Status SharedRegion::Changed(const std::string& field) const {
  return {
      Code::kFailedPrecondition, "SHARED_MEMORY_CHANGED",
      StrCat(field, ".name"),
      StrCat("the object was truncated, or the system ran out of memory for "
             "it, while ",
             bytes_, " bytes at offset ", offset_, " were in use")};
}

SharedObjects::SharedObjects(std::string prefix,
                             std::chrono::milliseconds period)
    : prefix_(std::move(prefix)),
      release_(period, [this] { ReleaseUnusable(); }) {}

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
  return SharedRegion(Cached(region.name(), access, *std::move(opened)),
                      region.offset(), region.byte_size());
}

std::shared_ptr<MappedObject> SharedObjects::Cached(
    const std::string& name, Access access,
    std::shared_ptr<MappedObject> opened) {
  std::list<Entry> removed;  // unmapped after the mutex is unlocked
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.access == access && entry.name == name;
  });
  if (found != entries_.end()) {
    if (found->object->IsSameAs(*opened)) {
      entries_.splice(entries_.end(), entries_, found);
      return found->object;
    }
    removed.splice(removed.end(), entries_, found);
  }
  // Do not cache huge objects: other objects may need their address space.
  constexpr int64_t kMaxKeptBytes = int64_t{64} << 30;
  if (opened->size() > kMaxKeptBytes) return opened;
  if (entries_.size() == kMaxKept) {
    const auto unused = std::ranges::find_if(entries_, [](const Entry& entry) {
      return entry.object.use_count() == 1;
    });
    if (unused == entries_.end()) return opened;
    removed.splice(removed.end(), entries_, unused);
  }
  entries_.push_back({name, access, opened});
  return opened;
}

size_t SharedObjects::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

void SharedObjects::ReleaseUnusable() {
  std::list<Entry> unusable;  // unmapped after the mutex is unlocked
  const MutexLock lock(mutex_);
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto entry = next++;
    const MappedObject& object = *entry->object;
    if (object.IsLinked() && object.StillHas(object.size())) continue;
    unusable.splice(unusable.end(), entries_, entry);
  }
}

}  // namespace topk
