#include "server/security/watched_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "tests/integration/subprocess.h"
#include "tests/support/authority.h"
#include "tests/support/test_server.h"

namespace topk {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
using testing::WriteText;

// Watches two files that must hold the same, every millisecond.
class Watched : public ::testing::Test {
 protected:
  Watched() { Write("1", "1"); }

  void Write(const std::string& a, const std::string& b) {
    WriteText(folder_.File("a"), a);
    WriteText(folder_.File("b"), b);
  }

  Status Start() {
    auto watch = WatchedFiles::Start(
        {{"--a", folder_.File("a")}, {"--b", folder_.File("b")}},
        [this](const std::vector<std::string>& contents) -> Status {
          if (contents[0] != contents[1]) {
            return InvalidArgument("", "", "they differ: " + contents[0]);
          }
          const std::lock_guard lock(mutex_);
          loaded_ = contents[0];
          ++loads_;
          return {};
        },
        *log_, std::chrono::milliseconds(1));
    if (!watch.ok()) return watch.status();
    watch_ = *std::move(watch);
    return {};
  }

  std::string Loaded() {
    const std::lock_guard lock(mutex_);
    return loaded_;
  }
  int Count(const std::string& text) {
    const std::string log = sink_->Text();
    int count = 0;
    for (size_t at = 0; (at = log.find(text, at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  }

  const testing::TemporaryFolder folder_;
  const std::shared_ptr<testing::LogSink> sink_ =
      std::make_shared<testing::LogSink>();
  const std::shared_ptr<spdlog::logger> log_ =
      testing::MakeLoggerTo(sink_, "info", "text");
  std::mutex mutex_;
  std::string loaded_;
  int loads_ = 0;
  std::unique_ptr<WatchedFiles> watch_;
};

TEST_F(Watched, LoadsAtTheStartOrReportsWhyNot) {
  EXPECT_TRUE(Start().ok());
  EXPECT_EQ(Loaded(), "1");
  Write("1", "2");
  EXPECT_EQ(Start().message, "they differ: 1");
  std::filesystem::remove(folder_.File("b"));
  EXPECT_THAT(Start().message, HasSubstr("--b: cannot read"));
}

TEST_F(Watched, LoadsNewContentFromAnyKindOfChange) {
  ASSERT_TRUE(Start().ok());
  Write("2", "2");  // as long as the old one, perhaps in the same tick
  EXPECT_TRUE(Eventually([this] { return Loaded() == "2"; }));
  WriteText(folder_.File("c"), "3");
  for (const char* name : {"a", "b"}) {
    std::filesystem::remove(folder_.File(name));
    std::filesystem::create_symlink(folder_.File("c"), folder_.File(name));
  }
  EXPECT_TRUE(Eventually([this] { return Loaded() == "3"; }));
  WriteText(folder_.File("d"), "4");
  std::filesystem::rename(folder_.File("d"), folder_.File("c"));
  EXPECT_TRUE(Eventually([this] { return Loaded() == "4"; }));
}

TEST_F(Watched, KeepsValidContentAndLogsAFaultOnce) {
  // One change at a time, at once: what is seen in between would be another
  // mistake.
  const auto put = [this](const char* name, const char* text) {
    WriteText(folder_.File("new"), text);
    std::filesystem::rename(folder_.File("new"), folder_.File(name));
  };
  ASSERT_TRUE(Start().ok());
  put("a", "2");
  EXPECT_TRUE(Eventually([this] { return Count("they differ: 2") > 0; }));
  put("a", "4");
  EXPECT_TRUE(Eventually([this] { return Count("they differ: 4") > 0; }));
  std::filesystem::remove(folder_.File("a"));
  EXPECT_TRUE(Eventually([this] { return Count("--a: cannot read") > 0; }));
  EXPECT_EQ(Loaded(), "1");
  put("b", "3");
  put("a", "3");
  EXPECT_TRUE(Eventually([this] { return Loaded() == "3"; }));
  for (const char* text : {"they differ: 2", "they differ: 4", "cannot read"}) {
    EXPECT_EQ(Count(text), 1) << sink_->Text();
  }
  EXPECT_EQ(Count("the previous content stays in use"), 3);
}

}  // namespace
}  // namespace topk
