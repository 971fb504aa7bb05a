// The shared memory objects that clients may name, and their mappings.
//
// Algorithm: each request opens its object by name, so that it uses the current
// object of that name, and then reuses the mapping of an earlier request if
// that is of the same object and size. Why: opening and comparing costs about 3
// us, while a new mapping costs a page fault for each page that is accessed.
//
// Tests: unit/shared_objects_test.cc, integration/shared_memory_test.cc.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "server/shared_memory/mapped_object.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// A part of an object, mapped as long as this lives.
class SharedRegion {
 public:
  SharedRegion(std::shared_ptr<const MappedObject> object, int64_t offset,
               int64_t bytes)
      : object_(std::move(object)), offset_(offset), bytes_(bytes) {}

  /// The bytes where they lie. They may change at any time.
  std::span<std::byte> bytes() const { return object_->part(offset_, bytes_); }

  /// OK if all of them have memory; otherwise FAILED_PRECONDITION with the
  /// region's path, `field`. Best effort: the object's owner can remove memory
  /// at any time.
  Status CheckWritten(const std::string& field) const;

  /// OK if all of them were there all the time; otherwise FAILED_PRECONDITION
  /// with the name's path, `field`.
  Status Check(const std::string& field) const;

 private:
  std::shared_ptr<const MappedObject> object_;
  int64_t offset_;
  int64_t bytes_;
};

/// The objects that were mapped for requests, kept for the next ones.
/// Thread-safe.
class SharedObjects {
 public:
  /// How many objects are kept mapped while nobody uses them.
  static constexpr size_t kMaxIdle = 64;

  /// Allows names that begin with the prefix. Mappings of unlinked objects are
  /// released within the period.
  explicit SharedObjects(std::string prefix, std::chrono::milliseconds period =
                                                 std::chrono::seconds(1));

  /// Returns the part of an object that a request names in `field`.
  /// INVALID_ARGUMENT for an invalid name, a missing object, or a range outside
  /// it; PERMISSION_DENIED for a name without the prefix, and if this process
  /// may not open it; RESOURCE_EXHAUSTED if it can map no more.
  Result<SharedRegion> Open(const v1::SharedMemoryRegion& region, Access access,
                            const std::string& field);

  /// How many objects are kept.
  size_t size() const;

 private:
  struct Entry {
    std::string name;
    Access access;
    std::shared_ptr<MappedObject> object;
    uint64_t used;
  };

  // Returns the mapping that is kept of an object just opened, or maps it and
  // keeps that.
  Result<std::shared_ptr<MappedObject>> Map(
      const std::string& name, Access access,
      std::shared_ptr<MappedObject> opened, const std::string& field);
  // Removes and returns the least recently used idle object if there is no room
  // for one more.
  std::shared_ptr<MappedObject> MakeRoom();
  // Gives the memory of objects back that nobody can name any more.
  void LetGo(const std::stop_token& stop);

  const std::string prefix_;
  const std::chrono::milliseconds period_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
  std::condition_variable_any kept_;
  std::jthread let_go_;
};

}  // namespace topk
