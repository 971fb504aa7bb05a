// The memory of a simulated CUDA device that processes share. An allocation is
// a POSIX shared memory object, and its IPC handle contains the object's name.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace topk::testing {

inline constexpr size_t kSharedHandleBytes = 64;
/// Returns the 16 bytes of the UUID of a device.
inline std::string SharedDeviceUuid(int device = 0) {
  return std::string(16, static_cast<char>('a' + device));
}

/// An allocation of a process. Freed on destruction.
class SharedAllocation {
 public:
  /// Aborts if there is not enough memory. `process` is the process to name as
  /// the owner. By default, it is not this process, so this process may open
  /// the handle.
  explicit SharedAllocation(size_t bytes, int process = 0);
  ~SharedAllocation();
  SharedAllocation(SharedAllocation&& other) noexcept;
  SharedAllocation& operator=(SharedAllocation&&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  /// Returns the IPC handle, of kSharedHandleBytes bytes.
  std::string handle() const;

 private:
  std::string name_;
  std::span<std::byte> bytes_;
};

/// Opens the memory of another process. As in CUDA, memory that is already open
/// has the same address again, and must be closed as often as it was opened.
/// Returns no bytes if there is no such memory, or if it is of this process.
std::span<std::byte> OpenShared(std::span<const std::byte> handle);

/// Closes the memory at an address that OpenShared() returned. Aborts if the
/// memory is not open.
void CloseShared(const std::byte* data);

/// Returns the memory that is open and contains an address, or no bytes.
std::span<std::byte> FindShared(const std::byte* address);

/// Returns how much memory is open, without repetitions.
size_t CountShared();

}  // namespace topk::testing
