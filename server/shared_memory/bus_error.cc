#include "server/shared_memory/bus_error.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "core/common/mutex.h"

namespace topk {
namespace {

// A guarded range. `end` is 0 if the slot is free. The signal handler cannot
// lock slots_mutex. Instead, it reads `version` before and after the other
// members. While another thread modifies the slot, `version` is odd or changes.
// The handler can skip such a slot, because no thread uses a range before its
// slot is complete.
struct Slot {
  std::atomic<uint32_t> version = 0;
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> writable = false;
  std::atomic<bool> broken = false;
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free);

constinit std::array<Slot, BusGuard::kMax> slots;
constinit Mutex slots_mutex;
// The page size. 0 until the first BusGuard installs the signal handler.
uintptr_t page_bytes = 0;
struct sigaction previous_action;

void Set(Slot& slot, uintptr_t begin, uintptr_t end, bool writable)
    TOPK_REQUIRES(slots_mutex) {
  slot.version.fetch_add(1);
  slot.begin.store(begin);
  slot.end.store(end);
  slot.writable.store(writable);
  slot.broken.store(false);
  slot.version.fetch_add(1);
}

// Replaces the pages from `address` to the end of the slot's range with zero
// pages. Returns false if `address` is not in the range or mapping fails.
bool Repair(Slot& slot, uintptr_t address) {
  const uint32_t version = slot.version.load();
  const uintptr_t begin = slot.begin.load();
  const uintptr_t end = slot.end.load();
  const int protection =
      slot.writable.load() ? PROT_READ | PROT_WRITE : PROT_READ;
  if (version % 2 != 0 || slot.version.load() != version) return false;
  if (address < begin || address >= end) return false;
  const uintptr_t page = address & ~(page_bytes - 1);
  slot.broken.store(true);
  return mmap(reinterpret_cast<void*>(page), end - page, protection,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
              0) != MAP_FAILED;
}

// Async-signal-safe: uses only atomics and system calls.
void OnBusError(int /*number*/, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  if (info->si_code == BUS_ADRERR) {
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    for (Slot& slot : slots) {
      if (Repair(slot, address)) {
        errno = error;
        return;
      }
    }
  }
  // Not ours: restore the previous handler, which is called next.
  sigaction(SIGBUS, &previous_action, nullptr);
  std::raise(SIGBUS);  // delivered when this handler returns
  errno = error;
}

void InstallHandler() {
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous_action);
}

}  // namespace

BusGuard::BusGuard(std::span<const std::byte> memory, bool writable)
    : slot_(0) {
  const MutexLock lock(slots_mutex);
  if (page_bytes == 0) InstallHandler();  // once per process
  while (slot_ < kMax && slots[slot_].end.load() != 0) ++slot_;
  if (slot_ == kMax) return;
  // Guard the whole last page, because the mapping includes it.
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t end =
      (begin + memory.size() + page_bytes - 1) & ~(page_bytes - 1);
  Set(slots[slot_], begin, end, writable);
}

BusGuard::~BusGuard() {
  if (!guards()) return;
  const MutexLock lock(slots_mutex);
  Set(slots[slot_], 0, 0, false);
}

bool BusGuard::broken() const { return guards() && slots[slot_].broken.load(); }

}  // namespace topk
