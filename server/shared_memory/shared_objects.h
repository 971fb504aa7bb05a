// Maps the shared memory objects that clients name.
//
// Algorithm: each request opens its object by name, so that it uses the current
// object of that name, and then reuses the mapping of an earlier request if it
// is of the same object and size. Why: opening and comparing takes about 3 us,
// while a new mapping costs a page fault for each page that is accessed.
//
// Tests: unit/shared_objects_test.cc, integration/shared_memory_test.cc.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "core/base/status.h"
#include "server/shared_memory/mapped_object.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// A part of an object, mapped for the lifetime of this.
class SharedRegion {
 public:
  SharedRegion(std::shared_ptr<const MappedObject> object, int64_t offset,
               int64_t bytes)
      : object_(std::move(object)), offset_(offset), bytes_(bytes) {}

  /// The mapped bytes. Other processes may change them at any time.
  std::span<std::byte> bytes() const { return object_->part(offset_, bytes_); }

  /// Returns FAILED_PRECONDITION if a part of the region has no memory. `field`
  /// is the path of the region. Best effort: the owner of the object can remove
  /// memory at any time.
  Status CheckWritten(const std::string& field) const;

  /// Returns FAILED_PRECONDITION if a part of the region was removed since it
  /// was mapped. `field` is the path of the region.
  Status CheckIntact(const std::string& field) const;

 private:
  std::shared_ptr<const MappedObject> object_;
  int64_t offset_;
  int64_t bytes_;
};

/// Opens objects, and keeps them mapped for later requests. Thread-safe.
class SharedObjects {
 public:
  /// The maximum number of objects that are kept mapped.
  static constexpr size_t kMaxKept = 64;

  /// Allows names that begin with `prefix`. Every `period`, unmaps objects that
  /// were unlinked.
  explicit SharedObjects(std::string prefix, std::chrono::milliseconds period =
                                                 std::chrono::seconds(1));

  /// Returns the part of an object that a request names in `field`.
  /// INVALID_ARGUMENT for an invalid name, a missing object, or a range outside
  /// it; PERMISSION_DENIED for a name without the prefix, and if this process
  /// may not open it; RESOURCE_EXHAUSTED if the process has too many objects
  /// open.
  Result<SharedRegion> Open(const v1::SharedMemoryRegion& region, Access access,
                            const std::string& field);

  /// The number of objects that are kept.
  size_t size() const;

 private:
  struct Entry {
    std::string name;
    Access access;
    std::shared_ptr<MappedObject> object;
  };

  // Returns the kept mapping of an object that was just opened. If there is
  // none, maps the object, and keeps it in place of the least recently used
  // object that no request uses. Does not keep it if requests use all of them.
  Result<std::shared_ptr<MappedObject>> Map(
      const std::string& name, Access access,
      std::shared_ptr<MappedObject> opened, const std::string& field);
  // Unmaps objects that were unlinked: no new request can use them.
  void ReleaseUnlinked(const std::stop_token& stop);

  const std::string prefix_;
  const std::chrono::milliseconds period_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // guarded by the mutex; the last used one is last
  std::condition_variable_any added_;
  std::jthread release_thread_;
};

}  // namespace topk
