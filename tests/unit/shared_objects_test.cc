// The cache of shared memory mappings, and their guards: SIGBUS sets an error
// flag in guarded ranges and is handled as before elsewhere.
#include "server/shared_memory/shared_objects.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "server/oip/regions.h"
#include "server/shared_memory/bus_error.h"
#include "server/shared_memory/request_memory.h"
#include "tests/support/test_server.h"
#include "topk/shared_memory.h"

namespace topk {
namespace {

constexpr size_t kMax = SharedObjects::kMaxKept;

int Truncate(const SharedMemory& memory, off_t size) {
  return truncate(StrCat("/dev/shm", memory.name()).c_str(), size);
}

// Uses more objects than the cache keeps.
class SharedObjectsTest : public ::testing::Test {
 protected:
  SharedObjectsTest() {
    for (size_t i = 0; i < kMax + 20; ++i) {
      Result<SharedMemory> made = SharedMemory::Create("", 4096);
      EXPECT_TRUE(made.ok());
      memory_.push_back(*std::move(made));
    }
  }

  SharedRegion Open(size_t i, Access access = Access::kRead) {
    Result<SharedRegion> region =
        objects_.Open(memory_[i].Region(0, 4096), access, "x");
    EXPECT_TRUE(region.ok()) << region.status().message;
    return *std::move(region);
  }

  static std::span<std::byte> Bytes(const SharedRegion& region) {
    return *region.Map("x");
  }

  std::vector<SharedMemory> memory_;
  SharedObjects objects_{"/topk", std::chrono::milliseconds(10)};
};

TEST_F(SharedObjectsTest, ReusesMappings) {
  const std::byte* first = Bytes(Open(0)).data();
  EXPECT_EQ(Bytes(Open(0)).data(), first);
  EXPECT_NE(Bytes(Open(0, Access::kWrite)).data(), first);
  EXPECT_EQ(objects_.size(), 2u);
}

TEST_F(SharedObjectsTest, BoundsTheMappings) {
  const std::byte* first = Bytes(Open(0)).data();
  std::vector<Result<SharedMemory>> others;  // at addresses that become free
  for (size_t i = 1; i < memory_.size(); ++i) {
    Open(i);
    others.push_back(SharedMemory::Create("", 4096));
    EXPECT_EQ(Bytes(Open(0)).data(), first) << "it is used all the time";
    EXPECT_LE(objects_.size(), kMax);
  }
  EXPECT_EQ(objects_.size(), kMax);
}

TEST_F(SharedObjectsTest, KeepsObjectsInUse) {
  std::vector<SharedRegion> used;
  for (size_t i = 0; i < memory_.size(); ++i) used.push_back(Open(i));
  EXPECT_EQ(objects_.size(), kMax);
  for (size_t i = 0; i < memory_.size(); ++i) {
    memory_[i].data()[7] = static_cast<std::byte>(i);
    EXPECT_EQ(Bytes(used[i])[7], static_cast<std::byte>(i));
    EXPECT_TRUE(used[i].CheckIntact("x").ok());
  }
}

TEST_F(SharedObjectsTest, RejectsTooManyObjectsInUse) {
  std::vector<SharedRegion> used;
  Status mapped;
  for (size_t i = 0; mapped.ok() && i < 2 * BusGuard::kMax; ++i) {
    Result<SharedMemory> memory = SharedMemory::Create("", 1);
    ASSERT_TRUE(memory.ok());
    const Result<SharedRegion> region =
        objects_.Open(memory->Region(0, 1), Access::kRead, "x");
    ASSERT_TRUE(region.ok());
    used.push_back(*region);
    const auto bytes = region->Map("x");
    if (!bytes.ok()) mapped = bytes.status();
  }
  EXPECT_EQ(mapped.code, Code::kResourceExhausted);
  EXPECT_EQ(mapped.field, "server");
  EXPECT_GT(mapped.retry_after.count(), 0);
  EXPECT_FALSE(used.back().Map("x").ok()) << "again";
}

TEST_F(SharedObjectsTest, IsRetryableWithoutFileDescriptors) {
  Open(1);  // UBSan needs a descriptor when it first sees a type
  const testing::DescriptorLimit none_left(0);
  const Result<SharedRegion> region =
      objects_.Open(memory_[0].Region(0, 4096), Access::kRead, "x");
  EXPECT_EQ(region.status().code, Code::kResourceExhausted);
  EXPECT_GT(region.status().retry_after.count(), 0);
}

TEST_F(SharedObjectsTest, ReleasesUnlinkedAndTruncatedObjects) {
  const SharedRegion used = Open(0);
  for (size_t i = 1; i < 9; ++i) Open(i);
  EXPECT_EQ(objects_.size(), 9u);
  for (size_t i = 1; i < 5; ++i) {
    ASSERT_EQ(Truncate(memory_[i], 1), 0);
  }
  EXPECT_TRUE(testing::Eventually([this] { return objects_.size() == 5; }));
  memory_.clear();
  EXPECT_TRUE(testing::Eventually([this] { return objects_.size() == 0; }));
  EXPECT_TRUE(used.CheckIntact("x").ok());
}

TEST_F(SharedObjectsTest, CopiesUntilTheObjectEnds) {
  const SharedRegion region = Open(0);
  EXPECT_TRUE(region.Copy("x", nullptr).ok());
  Cancellation cancellation;
  cancellation.Cancel();
  EXPECT_EQ(region.Copy("x", &cancellation).status().code, Code::kCancelled);
  const auto end =
      objects_.Open(memory_[0].Region(4000, 96), Access::kRead, "");
  ASSERT_EQ(Truncate(memory_[0], 100), 0);
  EXPECT_EQ(region.Copy("x", nullptr).status().reason, "SHARED_MEMORY_CHANGED");
  EXPECT_EQ(end->CheckIntact("x").reason, "SHARED_MEMORY_CHANGED");
}

TEST_F(SharedObjectsTest, CopiesAnOutputUntilCancelledOrTruncated) {
  v1::TopKRequest request;
  *request.mutable_output()->mutable_values() = memory_[0].Region(0, 4096);
  RequestMemory opened(&objects_, nullptr);
  ASSERT_TRUE(opened.OpenOutputs(request, true).ok());
  ASSERT_TRUE(opened.SetSizes(5, 0).ok());
  v1::TopKResponse response;
  Cancellation cancellation;
  cancellation.Cancel();
  response.mutable_values()->set_data("value");
  EXPECT_EQ(opened.Deliver(response, &cancellation).code, Code::kCancelled);
  ASSERT_EQ(Truncate(memory_[0], 0), 0);
  response.mutable_values()->set_data("value");
  EXPECT_EQ(opened.Deliver(response, nullptr).reason, "SHARED_MEMORY_CHANGED");
  EXPECT_TRUE(response.values().data().empty());
}

TEST_F(SharedObjectsTest, LimitsRegionsInTotalAndPerClient) {
  Regions regions(&objects_, nullptr);
  Caller caller;
  caller.is_local = true;
  inference::SystemSharedMemoryRegisterRequest region;
  region.set_key(memory_[0].name());
  region.set_offset(100);
  for (const size_t length : {0u, 257u}) {
    region.set_name(std::string(length, 'x'));
    EXPECT_EQ(regions.Register(region, caller).field, "name");
  }
  size_t count = 0;
  const auto add = [&] {
    region.set_name(StrCat(count));
    return regions.Register(region, caller).reason;
  };
  while (count < Regions::kMax) {
    caller.key += "x";
    for (size_t i = 0; i < Regions::kMaxOfClient; ++i, ++count) {
      ASSERT_EQ(add(), "");
    }
    EXPECT_EQ(add(), "SHARED_MEMORY_REGIONS");
  }
  caller.key = "another client";
  EXPECT_EQ(add(), "SHARED_MEMORY_REGIONS");
  EXPECT_EQ(std::get<v1::SharedMemoryRegion>(*regions.Find("0", 0, 0)).offset(),
            100);
}

constexpr size_t kPages = 8;

// A mapped memory file of several pages.
class Pages {
 public:
  Pages()
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        fd_(memfd_create("pages", MFD_CLOEXEC)) {
    Truncate(kPages);
    memory_ = {static_cast<std::byte*>(mmap(nullptr, kPages * page_,
                                            PROT_READ | PROT_WRITE, MAP_SHARED,
                                            fd_, 0)),
               kPages * page_};
    for (size_t p = 0; p < kPages; ++p) Write(p, 7);
  }
  ~Pages() {
    munmap(memory_.data(), memory_.size());
    close(fd_);
  }

  void Truncate(size_t pages) {
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(pages * page_)), 0);
  }
  std::span<std::byte> memory() const { return memory_; }
  // Reads the first byte of a page. The compiler cannot optimize the read away.
  std::byte Read(size_t page) const { return *At(page); }
  void Write(size_t page, int byte) const {
    *At(page) = static_cast<std::byte>(byte);
  }

 private:
  volatile std::byte* At(size_t page) const {
    return memory_.data() + page * page_;
  }

  const size_t page_;
  const int fd_;
  std::span<std::byte> memory_;
};

TEST(BusGuard, ReplacesTruncatedPagesByZeros) {
  Pages pages;
  const BusGuard guard(pages.memory(), true);
  ASSERT_TRUE(guard.guards());
  EXPECT_FALSE(guard.broken());
  pages.Truncate(3);
  EXPECT_EQ(pages.Read(2), std::byte{7});
  EXPECT_FALSE(guard.broken());
  EXPECT_EQ(pages.Read(5), std::byte{0});
  EXPECT_TRUE(guard.broken());
  pages.Write(4, 1);  // below the page that was repaired first
  pages.Write(7, 2);
  EXPECT_EQ(pages.Read(7), std::byte{2});
  EXPECT_EQ(pages.Read(2), std::byte{7});
}

TEST(BusGuard, ReusesSlots) {
  Pages pages;
  {
    const BusGuard guard(pages.memory(), true);
    pages.Truncate(0);
    EXPECT_EQ(pages.Read(0), std::byte{0});
    EXPECT_TRUE(guard.broken());
  }
  for (size_t i = 0; i < 2 * BusGuard::kMax; ++i) {
    const BusGuard guard(pages.memory(), true);
    EXPECT_TRUE(guard.guards());
    EXPECT_FALSE(guard.broken());
  }
}

TEST(BusGuardDeathTest, FaultsOutsideARegionAreFatal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Pages guarded;
  Pages pages;
  const BusGuard guard(guarded.memory(), true);
  pages.Truncate(0);
  EXPECT_DEATH(pages.Write(0, 1), "");
  EXPECT_DEATH(std::raise(SIGBUS), "");
}

}  // namespace
}  // namespace topk
