// A POSIX shared memory object, mapped into this process.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/base/status.h"
#include "server/shared_memory/bus_error.h"

namespace topk {

/// The access to an object's bytes.
enum class Access { kRead, kWrite };

/// An open object, and its mapping. The mapping has the size that the object
/// had when it was opened. Other processes may change the bytes, and truncate
/// the object, at any time.
class MappedObject {
 public:
  /// Opens the object that has this name now. `field` is the path of the name.
  /// INVALID_ARGUMENT if there is none, or the name is that of another file;
  /// PERMISSION_DENIED if this process may not open it; RESOURCE_EXHAUSTED if
  /// this process or the system has too many files open.
  static Result<std::shared_ptr<MappedObject>> Open(const std::string& name,
                                                    Access access,
                                                    const std::string& field);
  ~MappedObject();
  MappedObject(const MappedObject&) = delete;
  MappedObject& operator=(const MappedObject&) = delete;

  /// Returns whether `other` is the same object, opened with the same size, and
  /// this one was not truncated.
  bool IsSameAs(const MappedObject& other) const;

  /// Returns whether the object still has a name.
  bool IsLinked() const;

  /// The size in bytes when the object was opened.
  int64_t size() const { return static_cast<int64_t>(info_.st_size); }
  /// Maps the object. No-op if it is mapped or empty. RESOURCE_EXHAUSTED if the
  /// system cannot map it, or too many are mapped.
  Status Map(const std::string& field);
  /// Returns a part of the mapping. REQUIRES: Map() returned OK, and the part
  /// is within size().
  std::span<std::byte> part(int64_t offset, int64_t bytes) const;

  /// Returns whether the part has no holes. If this process reads a hole, the
  /// system allocates memory for it and charges this process. Best effort: a
  /// peer can punch holes afterwards, or hide holes by allocating as many pages
  /// beyond the size.
  bool HasMemory(int64_t offset, int64_t bytes) const;

  /// Returns whether the object had at least `bytes` bytes all the time since
  /// it was mapped.
  bool StillHas(int64_t bytes) const;

 private:
  MappedObject(int descriptor, const struct stat& info, Access access)
      : descriptor_(descriptor), info_(info), access_(access) {}

  const int descriptor_;
  struct stat info_;
  const Access access_;
  std::span<std::byte> memory_;
  std::optional<BusGuard> guard_;
};

}  // namespace topk
