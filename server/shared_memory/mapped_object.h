// A POSIX shared memory object, mapped into this process.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/common/mutex.h"
#include "server/shared_memory/bus_error.h"
#include "topk/status.h"

namespace topk {

/// How an object's bytes are accessed.
enum class Access { kRead, kWrite };

/// An open shared memory object. The object is mapped on first use, with the
/// size that it had when it was opened. Other processes may change the bytes or
/// truncate the object at any time. Thread-safe.
class MappedObject {
 public:
  /// Opens the object that currently has this name. `field` is the path of the
  /// request field that contains the name. Returns INVALID_ARGUMENT if there is
  /// no such object or the name refers to another kind of file,
  /// PERMISSION_DENIED if this process may not open it, and RESOURCE_EXHAUSTED
  /// if this process or the system has too many open files.
  static Result<std::shared_ptr<MappedObject>> Open(const std::string& name,
                                                    Access access,
                                                    const std::string& field);
  ~MappedObject();
  MappedObject(const MappedObject&) = delete;
  MappedObject& operator=(const MappedObject&) = delete;

  /// Returns whether `other` is the same object, opened with the same size, and
  /// this object has not been truncated.
  bool IsSameAs(const MappedObject& other) const;

  /// Returns whether the object still has a name.
  bool IsLinked() const;

  /// The size in bytes when the object was opened.
  int64_t size() const { return static_cast<int64_t>(info_.st_size); }
  /// Maps the object if it is not mapped yet, and returns its bytes. Returns
  /// RESOURCE_EXHAUSTED if mapping fails or too many objects or bytes are
  /// mapped. Call this only when the bytes are needed: the bytes that can be
  /// mapped are limited, and waiting requests must not use them up.
  Result<std::span<std::byte>> Map(const std::string& field);

  /// Returns whether parts of the object have never been written and have no
  /// memory. If this process reads such a part through the mapping, the system
  /// allocates memory for it and charges this process. The result may be out of
  /// date, because other processes can remove memory at any time.
  bool IsSparse() const;
  /// Reads `to.size()` bytes at `offset` without using the mapping, so that
  /// parts that were never written take no memory. Returns false if out of
  /// range.
  bool Read(int64_t offset, std::span<std::byte> to) const;

  /// Returns false if the object has shrunk below `bytes` bytes since Map().
  bool StillHas(int64_t bytes) const;

 private:
  MappedObject(int descriptor, const struct stat& info, Access access)
      : descriptor_(descriptor), info_(info), access_(access) {}

  void Unmap() TOPK_REQUIRES(mutex_);

  const int descriptor_;
  struct stat info_;
  const Access access_;
  mutable Mutex mutex_;
  std::span<std::byte> memory_ TOPK_GUARDED_BY(mutex_);
  std::optional<BusGuard> guard_ TOPK_GUARDED_BY(mutex_);
  // Set once. Atomic, so that StillHas() does not have to wait for Map().
  std::atomic<const BusGuard*> used_guard_ = nullptr;
};

}  // namespace topk
