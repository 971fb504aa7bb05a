// SIGBUS sets an error flag in guarded ranges and is handled as before
// elsewhere.
#include "server/shared_memory/bus_error.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>

namespace topk {
namespace {

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
