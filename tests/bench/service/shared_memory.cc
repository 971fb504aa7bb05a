#include "tests/bench/service/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace topk::bench {

SharedMemory::SharedMemory(const std::string& name,
                           std::span<const std::byte> data)
    : name_(name), size_(data.size()) {
  const int file = shm_open(name_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0) throw std::runtime_error("cannot make " + name_);
  void* memory = MAP_FAILED;
  // Unlike ftruncate, this fails where a later write would end the process.
  if (posix_fallocate(file, 0, static_cast<off_t>(size_)) == 0) {
    memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (memory == MAP_FAILED) {
    shm_unlink(name_.c_str());
    throw std::runtime_error("no shared memory for " + name_);
  }
  std::memcpy(memory, data.data(), size_);
  munmap(memory, size_);
}

SharedMemory::~SharedMemory() { shm_unlink(name_.c_str()); }

void SharedMemory::Describe(v1::SharedMemoryRegion& region) const {
  region.set_name(name_);
  region.set_offset(0);
  region.set_byte_size(static_cast<int64_t>(size_));
}

}  // namespace topk::bench
