// Maps the shared memory objects that clients name.
//
// Each request opens its object by name, because the name may refer to a new
// object. If the object and its size are the same as before, the request reuses
// the earlier mapping. Reusing a mapping takes about 3 us, while a new mapping
// costs a page fault for each page accessed.
//
// Tests: unit/shared_objects_test.cc, integration/shared_memory_test.cc.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/deferred_free.h"
#include "core/common/mutex.h"
#include "server/shared_memory/mapped_object.h"
#include "server/threads/periodic.h"
#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// A part of an open object.
class SharedRegion {
 public:
  SharedRegion(std::shared_ptr<MappedObject> object, int64_t offset,
               int64_t bytes)
      : object_(std::move(object)), offset_(offset), bytes_(bytes) {}

  using Bytes = std::vector<std::byte, DeferredFreeAllocator<std::byte>>;

  /// The size in bytes.
  int64_t size() const { return bytes_; }

  /// Returns the bytes, which stay mapped while this object exists. Other
  /// processes may change the bytes at any time. Fails if MappedObject::Map()
  /// fails. `field` is the path of the request field with the region.
  Result<std::span<std::byte>> Map(const std::string& field) const;

  /// See MappedObject::IsSparse().
  bool IsSparse() const { return object_->IsSparse(); }

  /// Copies the region into private memory without using the mapping. Returns
  /// FAILED_PRECONDITION if the object was truncated, and CANCELLED if
  /// cancelled. `field` is the request field with the region.
  Result<Bytes> Copy(const std::string& field,
                     const Cancellation* cancellation) const;

  /// Returns whether both regions are parts of the same object.
  bool SharesObjectWith(const SharedRegion& other) const {
    return object_->IsSameAs(*other.object_);
  }

  /// Returns FAILED_PRECONDITION if a part of the region may have been removed
  /// since it was mapped. `field` is the request field with the region.
  Status CheckIntact(const std::string& field) const;

 private:
  Status Changed(const std::string& field) const;

  std::shared_ptr<MappedObject> object_;
  int64_t offset_;
  int64_t bytes_;
};

/// Opens objects and caches their mappings for later requests. Thread-safe.
class SharedObjects {
 public:
  /// The maximum number of cached mappings.
  static constexpr size_t kMaxKept = 64;

  /// Allows only names that begin with `prefix`. Every `period`, unmaps objects
  /// that were deleted or truncated.
  explicit SharedObjects(std::string prefix, std::chrono::milliseconds period =
                                                 std::chrono::seconds(1));

  /// Returns the region that a request names in `field`. Returns
  /// INVALID_ARGUMENT for an invalid name, a missing object or a range outside
  /// the object, PERMISSION_DENIED if the name does not begin with the prefix
  /// or this process may not open the object, and RESOURCE_EXHAUSTED if the
  /// process has too many objects open.
  Result<SharedRegion> Open(const v1::SharedMemoryRegion& region, Access access,
                            const std::string& field);

  /// The number of cached mappings.
  size_t size() const;

 private:
  struct Entry {
    std::string name;
    Access access;
    std::shared_ptr<MappedObject> object;
  };

  // Returns the cached mapping of the object that was opened. On a cache miss,
  // caches and returns `opened`. If the cache is full, evicts the least
  // recently used object that no request uses. If requests use all cached
  // objects, does not cache `opened`. Never caches huge objects.
  std::shared_ptr<MappedObject> Cached(const std::string& name, Access access,
                                       std::shared_ptr<MappedObject> opened);
  // Unmaps unlinked and truncated objects, which no new request can use.
  void ReleaseUnusable();

  const std::string prefix_;
  mutable Mutex mutex_;
  std::list<Entry> entries_
      TOPK_GUARDED_BY(mutex_);  // least recently used first
  Periodic release_;
};

}  // namespace topk
