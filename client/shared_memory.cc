#include "topk/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "core/base/text.h"
#include "core/common/object_name.h"

namespace topk {
namespace {

std::string UniqueName() {
  std::random_device random;
  return StrCat("/topk-", getpid(), "-", random(), random());
}

Status CannotCreate(const std::string& name, size_t bytes, int error) {
  const std::string message =
      StrCat("cannot create shared memory ", Quote(name), " of ", bytes,
             " bytes: ", ErrnoText(error));
  if (error == EEXIST || error == EACCES) {
    return InvalidArgument("SHARED_MEMORY_NAME", "name", message);
  }
  return ResourceExhausted("SHARED_MEMORY_EXHAUSTED", "", message);
}

}  // namespace

Result<SharedMemory> SharedMemory::Create(const std::string& name,
                                          size_t bytes) {
  const std::string used = name.empty() ? UniqueName() : name;
  if (Status s = CheckObjectName(used, "name"); !s.ok()) return s;
  const int fd = shm_open(used.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return CannotCreate(used, bytes, errno);
  SharedMemory memory(used);  // unlinks the object on failure
  // Allocate now: touching memory that cannot be allocated raises SIGBUS.
  int error = 0;
  do {
    if (bytes > 0) error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error == 0 && bytes > 0) {
    void* const begin =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (begin == MAP_FAILED) {
      error = errno;
    } else {
      memory.data_ = {static_cast<std::byte*>(begin), bytes};
    }
  }
  close(fd);
  if (error != 0) return CannotCreate(used, bytes, error);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : name_(std::exchange(other.name_, "")),
      data_(std::exchange(other.data_, {})) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!data_.empty()) munmap(data_.data(), data_.size());
  if (!name_.empty()) shm_unlink(name_.c_str());
}

v1::SharedMemoryRegion SharedMemory::Region(size_t offset, size_t bytes) const {
  v1::SharedMemoryRegion region;
  region.set_name(name_);
  region.set_offset(static_cast<int64_t>(offset));
  region.set_byte_size(static_cast<int64_t>(bytes));
  return region;
}

}  // namespace topk
