#include "tests/support/host_device.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <numeric>
#include <utility>
#include <vector>

#include "core/backends/cuda/items.h"

namespace topk::testing {
namespace {

using cuda::ItemArrays;
using cuda::Lane;
using cuda::Memory;
using cuda::SelectTask;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "host device: " << what << std::endl;
  std::abort();
}

class HostMemory final : public Memory {
 public:
  HostMemory(std::vector<std::byte> bytes, std::atomic<int64_t>& used)
      : Memory(bytes.data()), bytes_(std::move(bytes)), used_(used) {
    used_ += static_cast<int64_t>(size());
  }
  ~HostMemory() override { used_ -= static_cast<int64_t>(size()); }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
  std::atomic<int64_t>& used_;
};

size_t SizeOf(const Memory& memory) {
  return static_cast<const HostMemory&>(memory).size();
}

class HostDevice final : public cuda::Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options) : options_(options) {}

  Result<std::unique_ptr<Lane>> OpenLane(int64_t bytes) override;
  std::string_view architecture() const override { return "host"; }
  bool lost() const override { return lost_; }
  int64_t memory_limit() const override { return options_.memory_limit; }
  DeviceState state() const override {
    return {"host", reserved_, options_.memory_limit, lost_};
  }

  void CloseLane(int64_t bytes) { reserved_ -= bytes; }

  // Counts a call. Returns an error if the options make this call fail.
  Status Call() {
    const int64_t call = calls_++;
    if (options_.calls_until_lost >= 0 && call >= options_.calls_until_lost) {
      lost_ = true;
    }
    if (lost_) return {Code::kUnavailable, "DEVICE_LOST", "", "lost"};
    if (call == options_.calls_until_full) {
      return ResourceExhausted("DEVICE_MEMORY", "server", "full");
    }
    return {};
  }

 private:
  const HostDeviceOptions options_;
  std::atomic<bool> lost_ = false;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> reserved_ = 0;
};

// Checks that accesses are within the memory declared to Lane::Select().
class Uses {
 public:
  explicit Uses(std::initializer_list<Memory*> uses) : uses_(uses) {}

  void Check(const void* from, int64_t bytes, const char* what) const {
    if (bytes == 0) return;
    const auto begin = reinterpret_cast<uintptr_t>(from);
    for (const Memory* memory : uses_) {
      if (memory == nullptr) continue;
      const auto start = reinterpret_cast<uintptr_t>(memory->data());
      if (begin >= start &&
          begin + static_cast<uint64_t>(bytes) <= start + SizeOf(*memory)) {
        return;
      }
    }
    Require(false, what);
  }

  void Check(const ItemArrays& items, int64_t count, int element_bytes,
             const char* what) const {
    Check(items.bits, count * cuda::ItemBytes(element_bytes) / 2, what);
    Check(items.indices, count * cuda::ItemBytes(element_bytes) / 2, what);
  }

 private:
  const std::vector<Memory*> uses_;
};

template <class Bits>
void Select(const SelectTask& task) {
  // The kernels of cuda/filter.h need rows, so transpose the tile.
  const auto bytes = static_cast<size_t>(task.rule.bytes);
  std::vector<std::byte> rows(
      static_cast<size_t>(task.slices() * task.positions) * bytes);
  for (int64_t slice = 0; slice < task.slices(); ++slice) {
    for (int64_t i = 0; i < task.positions; ++i) {
      const int64_t from =
          (slice / task.inner * task.positions + i) * task.inner +
          slice % task.inner;
      std::memcpy(
          rows.data() + static_cast<size_t>(slice * task.positions + i) * bytes,
          static_cast<const std::byte*>(task.elements) +
              static_cast<size_t>(from) * bytes,
          bytes);
    }
  }
  cuda::Items<Bits> items{task};
  items.task.elements = rows.data();
  std::vector<int64_t> positions(static_cast<size_t>(task.length()));
  for (int64_t slice = 0; slice < task.slices(); ++slice) {
    std::iota(positions.begin(), positions.end(), 0);
    std::ranges::stable_sort(positions, std::greater(),
                             [&](int64_t i) { return items.KeyAt(slice, i); });
    if (task.writes_by_index()) {
      std::sort(positions.begin(), positions.begin() + task.k);
    }
    for (int64_t rank = 0; rank < task.k; ++rank) {
      items.Write(slice, 1, 0, rank, positions[static_cast<size_t>(rank)]);
    }
  }
}

class HostLane final : public Lane {
 public:
  HostLane(HostDevice& device, int64_t bytes)
      : device_(device), bytes_(bytes) {}
  ~HostLane() override {
    Require(used_ == 0, "memory outlives its lane");
    device_.CloseLane(bytes_);
  }

  std::unique_ptr<Memory> Allocate(size_t bytes) override {
    if (!Begins()) bytes = 0;
    auto memory = std::make_unique<HostMemory>(
        std::vector<std::byte>(bytes, std::byte{0xA5}), used_);
    Require(used_ <= bytes_, "a lane has more than it was opened for");
    return memory;
  }

  void Upload(std::span<const std::byte> from, Memory& to, size_t at) override {
    if (!Begins()) return;
    Require(at + from.size() <= SizeOf(to), "an upload is too long");
    std::memcpy(to.data() + at, from.data(), from.size());
  }

  void Select(const SelectTask& task,
              std::initializer_list<Memory*> uses) override {
    if (!Begins()) return;
    const Uses checked(uses);
    const int bytes = task.rule.bytes;
    checked.Check(task.elements, task.slices() * task.positions * bytes,
                  "elements lie outside");
    checked.Check(task.carried, task.slices() * task.carried_count, bytes,
                  "carried items lie outside");
    if (task.kept.bits != nullptr) {
      checked.Check(task.kept, task.kept_count(), bytes,
                    "kept items lie outside");
    }
    Require(task.k >= 1 && task.k <= task.length(), "k is out of range");
    if (task.values != nullptr) {
      checked.Check(task.values, task.kept_count() * bytes,
                    "values lie outside");
    }
    if (task.indices != nullptr) {
      checked.Check(task.indices, task.kept_count() * task.index_bytes,
                    "indices lie outside");
    }
    if (bytes <= 4) {
      testing::Select<uint32_t>(task);
    } else {
      testing::Select<uint64_t>(task);
    }
  }

  void Download(Memory& from, std::span<std::byte> to) override {
    if (!Begins()) return;
    Require(to.size() <= SizeOf(from), "a download is too long");
    std::memcpy(to.data(), from.data(), to.size());
  }

 private:
  bool Begins() {
    if (status_.ok()) status_ = device_.Call();
    return status_.ok();
  }

  HostDevice& device_;
  const int64_t bytes_;
  std::atomic<int64_t> used_ = 0;
};

Result<std::unique_ptr<Lane>> HostDevice::OpenLane(int64_t bytes) {
  if (Status s = Call(); !s.ok()) return s;
  if (bytes > options_.memory_limit - reserved_) {
    return ResourceExhausted("DEVICE_MEMORY", "server", "taken");
  }
  reserved_ += bytes;
  return std::unique_ptr<Lane>(std::make_unique<HostLane>(*this, bytes));
}

}  // namespace

std::unique_ptr<cuda::Device> MakeHostDevice(const HostDeviceOptions& options) {
  return std::make_unique<HostDevice>(options);
}

}  // namespace topk::testing
