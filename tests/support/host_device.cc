#include "tests/support/host_device.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>
#include <vector>

#include "core/backends/cuda/items.h"
#include "tests/support/cuda/shared_device.h"

namespace topk::testing {
namespace {

using cuda::Arrangement;
using cuda::ItemArrays;
using cuda::ItemSource;
using cuda::Lane;
using cuda::Memory;
using cuda::Method;
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
  Result<std::unique_ptr<cuda::ImportedMemory>> Import(
      std::span<const std::byte, cuda::kIpcHandleBytes> handle,
      const std::string& field) override;
  const std::string& uuid() const override { return uuid_; }
  std::string_view architecture() const override { return "host"; }
  bool lost() const override { return lost_; }
  int64_t memory_limit() const override { return options_.memory_limit; }
  DeviceState state() const override {
    return {"host", reserved_, options_.memory_limit, lost_, 0, uuid_};
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
  const std::string uuid_ = std::string(kSharedDeviceUuid, 16);
  std::atomic<bool> lost_ = false;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> reserved_ = 0;
};

class HostImport final : public cuda::ImportedMemory {
 public:
  explicit HostImport(std::span<std::byte> bytes) : ImportedMemory(bytes) {}
  ~HostImport() override { CloseShared(bytes().data()); }
};

Result<std::unique_ptr<cuda::ImportedMemory>> HostDevice::Import(
    std::span<const std::byte, cuda::kIpcHandleBytes> handle,
    const std::string& field) {
  if (Status s = Call(); !s.ok()) return s;
  const std::span<std::byte> bytes = OpenShared(handle);
  if (bytes.empty()) {
    return InvalidArgument("CUDA_MEMORY_HANDLE", field,
                           "the handle cannot be opened on host");
  }
  return std::unique_ptr<cuda::ImportedMemory>(
      std::make_unique<HostImport>(bytes));
}

// Aborts unless the bytes are in one imported memory.
void RequireImported(std::span<const std::byte> bytes) {
  const std::span<std::byte> memory = FindShared(bytes.data());
  Require(bytes.empty() || (!memory.empty() && bytes.data() + bytes.size() <=
                                                   memory.data() +
                                                       memory.size()),
          "a copy is not within imported memory");
}

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
    Check(items.sort_keys, count * cuda::SortKeyBytes(element_bytes), what);
    Check(items.bits, count * cuda::SortKeyBytes(element_bytes) / 2, what);
  }

 private:
  const std::vector<Memory*> uses_;
};

template <class Types>
void Select(const SelectTask& task) {
  using SortKey = typename Types::SortKey;
  using Bits = typename Types::Bits;
  struct Item {
    SortKey sort_key;
    Bits bits;
  };
  const ItemSource<Types> source{task};
  const auto before = [](const Item& a, const Item& b) {
    return a.sort_key > b.sort_key;
  };
  const auto k = static_cast<size_t>(task.k);
  std::vector<Item> items;
  for (int64_t s = 0; s < task.slices(); ++s) {
    items.clear();
    for (int64_t i = 0; i < task.length(); ++i) {
      items.push_back({source.SortKeyAt(s, i), source.BitsAt(s, i)});
    }
    std::sort(items.begin(), items.end(), before);
    Require(std::adjacent_find(items.begin(), items.end(),
                               [](const Item& a, const Item& b) {
                                 return a.sort_key == b.sort_key;
                               }) == items.end(),
            "two items of a slice have one order");
    items.resize(k);
    if (task.arrangement == Arrangement::kAny) {
      // Sort neither by value nor by index, to catch code that relies on order.
      std::reverse(items.begin(), items.end());
      std::rotate(items.begin(), items.begin() + task.k / 3, items.end());
    }
    if (task.arrangement == Arrangement::kByIndex) {
      for (Item& item : items) item.sort_key = Types::ByIndex(item.sort_key);
      std::sort(items.begin(), items.end(), before);
    }
    for (size_t i = 0; i < k; ++i) {
      const size_t at = static_cast<size_t>(s) * k + i;
      static_cast<SortKey*>(task.kept.sort_keys)[at] = items[i].sort_key;
      static_cast<Bits*>(task.kept.bits)[at] = items[i].bits;
    }
  }
  for (int64_t t = 0; t < task.kept_count(); ++t) {
    cuda::WriteOutput<Types>(task, t);
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
    checked.Check(task.kept, task.kept_count(), bytes,
                  "kept items lie outside");
    Require(task.k >= 1 && task.k <= task.length(), "k is out of range");
    Require((task.method == Method::kKeepAll) == (task.k == task.length()),
            "the method is the wrong one");
    Require(task.method != Method::kBatchedTopK ||
                task.length() <= cuda::kMaxBatchedLength,
            "a slice is too long for a block");
    if (task.values != nullptr) {
      checked.Check(task.values, task.kept_count() * bytes,
                    "values lie outside");
    }
    if (task.indices != nullptr) {
      checked.Check(task.indices, task.kept_count() * task.index_bytes,
                    "indices lie outside");
    }
    if (bytes <= 4) {
      testing::Select<cuda::NarrowItems>(task);
    } else {
      testing::Select<cuda::WideItems>(task);
    }
  }

  void Download(Memory& from, std::span<std::byte> to) override {
    if (!Begins()) return;
    Require(to.size() <= SizeOf(from), "a download is too long");
    std::memcpy(to.data(), from.data(), to.size());
  }

  void CopyIn(std::span<const std::byte> from, Memory& to, size_t at) override {
    RequireImported(from);
    Upload(from, to, at);
  }
  void CopyOut(Memory& from, std::span<std::byte> to) override {
    RequireImported(to);
    Download(from, to);
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
