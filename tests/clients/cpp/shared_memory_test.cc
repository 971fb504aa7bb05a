// Tests that SharedMemory is created, moved and removed.
#include "topk/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>

#include "core/base/text.h"

namespace topk {
namespace {

std::string Path(const std::string& name) { return "/dev/shm" + name; }

bool Exists(const std::string& name) {
  return access(Path(name).c_str(), F_OK) == 0;
}

TEST(SharedMemory, IsZeroedPrivateAndRemoved) {
  std::string name;
  {
    Result<SharedMemory> made = SharedMemory::Create("", 5000);
    ASSERT_TRUE(made.ok()) << made.status().message;
    name = made->name();
    EXPECT_EQ(name.substr(0, 5), "/topk");
    ASSERT_EQ(made->data().size(), 5000u);
    EXPECT_EQ(std::ranges::count(made->data(), std::byte{0}), 5000);
    struct stat info {};
    ASSERT_EQ(stat(Path(name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_EQ(info.st_size, 5000);
    const v1::SharedMemoryRegion region = made->Region(3, 8);
    EXPECT_EQ(region.name(), name);
    EXPECT_EQ(region.offset(), 3);
    EXPECT_EQ(region.byte_size(), 8);
  }
  EXPECT_FALSE(Exists(name));
}

TEST(SharedMemory, RejectsInvalidNames) {
  const std::string name = StrCat("/topk-test-", getpid(), "-taken");
  const Result<SharedMemory> made = SharedMemory::Create(name, 16);
  ASSERT_TRUE(made.ok());
  for (const std::string& wrong :
       {name, std::string("/a/b"), std::string("/"), std::string("bad"),
        std::string("/a\0b", 4), "/" + std::string(300, 'x')}) {
    const Result<SharedMemory> refused = SharedMemory::Create(wrong, 16);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.status().code, Code::kInvalidArgument);
    EXPECT_EQ(refused.status().reason, "SHARED_MEMORY_NAME");
  }
  EXPECT_TRUE(Exists(name));
}

TEST(SharedMemory, ReportsALackOfMemory) {
  const std::string name = StrCat("/topk-test-", getpid(), "-large");
  const Result<SharedMemory> made = SharedMemory::Create(
      name, static_cast<size_t>(std::numeric_limits<int64_t>::max()));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code, Code::kResourceExhausted);
  EXPECT_FALSE(Exists(name));
}

}  // namespace
}  // namespace topk
