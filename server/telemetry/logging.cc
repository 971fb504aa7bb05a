#include "server/telemetry/logging.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "proto/library_versions.h"
#include "server/telemetry/line_limiter.h"

namespace topk {
namespace {

using json = nlohmann::ordered_json;

// This byte before a message tells the formatters that it is a JSON object, to
// be spliced in instead of quoted. All other messages begin with fixed text.
constexpr char kFieldsMark = '\x1e';

// The most errors of gRPC's in a second.
constexpr int kLibraryErrors = 100;

// For the last lines of a process that ends itself.
constexpr std::chrono::seconds kLastWords{1};

std::string ToText(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string_view Payload(const spdlog::details::log_msg& msg) {
  return {msg.payload.data(), msg.payload.size()};
}

// Writes one JSON object a line. spdlog's patterns do not escape messages.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& msg,
              spdlog::memory_buf_t& out) override {
    const auto level = spdlog::level::to_string_view(msg.level);
    const std::chrono::duration<double> ts = msg.time.time_since_epoch();
    std::string line =
        ToText({{"ts", ts.count()},
                {"level", std::string(level.data(), level.size())}});
    const std::string_view text = Payload(msg);
    const bool is_object = text.starts_with(kFieldsMark);
    const std::string object = is_object ? std::string(text.substr(1))
                                         : ToText({{"msg", std::string(text)}});
    line.back() = ',';  // two objects become one
    line.append(object, 1);
    line += '\n';
    out.append(line.data(), line.data() + line.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

// Writes "time level text", control characters escaped, so that a message
// cannot forge a line. Objects are for machines, whatever people read.
class TextFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& msg,
              spdlog::memory_buf_t& out) override {
    if (Payload(msg).starts_with(kFieldsMark)) return json_.format(msg, out);
    const std::string text = EscapeControls(Payload(msg));
    spdlog::details::log_msg clean = msg;
    clean.payload = text;
    pattern_.format(clean, out);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<TextFormatter>();
  }

 private:
  JsonFormatter json_;
  spdlog::pattern_formatter pattern_{"%Y-%m-%dT%H:%M:%S.%e%z %l %v"};
};

// A sink of an asynchronous logger that knows how far its thread has come.
class Progress final : public spdlog::sinks::sink {
 public:
  explicit Progress(std::weak_ptr<spdlog::details::thread_pool> pool)
      : pool_(std::move(pool)) {}

  void log(const spdlog::details::log_msg&) override {}
  // Called after all earlier lines have been written.
  void flush() override {
    const std::lock_guard lock(mutex_);
    ++flushed_;
    changed_.notify_all();
  }
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  bool Flush(spdlog::logger& log, std::chrono::milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    std::unique_lock lock(mutex_);
    const int64_t wanted = asked_ + 1;
    // The message that asks for it may itself have to make way for others.
    for (auto now = end - timeout; flushed_ < wanted && now < end;
         now = std::chrono::steady_clock::now()) {
      ++asked_;
      lock.unlock();
      log.flush();
      lock.lock();
      changed_.wait_until(lock, std::min(end, now + kAskAgain),
                          [&] { return flushed_ >= wanted; });
    }
    return flushed_ >= wanted;
  }

  int64_t Dropped() const {
    const auto pool = pool_.lock();
    return pool == nullptr ? 0 : static_cast<int64_t>(pool->overrun_counter());
  }

 private:
  static constexpr std::chrono::milliseconds kAskAgain{50};

  const std::weak_ptr<spdlog::details::thread_pool> pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t asked_ = 0;
  int64_t flushed_ = 0;
};

// Returns it, or nullptr if whoever logs writes.
Progress* ProgressOf(const spdlog::logger& log) {
  return log.sinks().empty()
             ? nullptr
             : dynamic_cast<Progress*>(log.sinks().back().get());
}

void SetUp(spdlog::logger& log, const std::string& level,
           const std::string& format) {
  if (format == "json") {
    log.set_formatter(std::make_unique<JsonFormatter>());
  } else {
    log.set_formatter(std::make_unique<TextFormatter>());
  }
  log.set_level(spdlog::level::from_str(level));
}

}  // namespace

std::shared_ptr<spdlog::logger> MakeLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format) {
  auto log = std::make_shared<spdlog::logger>("topkd", std::move(sink));
  SetUp(*log, level, format);
  log->flush_on(spdlog::level::info);
  return log;
}

std::shared_ptr<spdlog::logger> MakeAsyncLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format) {
  // Its thread, which ends with it: the logger's own pointer to it is weak.
  struct Owner {
    std::shared_ptr<spdlog::details::thread_pool> pool;
    std::shared_ptr<spdlog::async_logger> log;
  };
  auto owner = std::make_shared<Owner>();
  owner->pool =
      std::make_shared<spdlog::details::thread_pool>(kMaxWaitingLines, 1);
  owner->log = std::make_shared<spdlog::async_logger>(
      "topkd",
      spdlog::sinks_init_list{std::move(sink),
                              std::make_shared<Progress>(owner->pool)},
      owner->pool, spdlog::async_overflow_policy::overrun_oldest);
  SetUp(*owner->log, level, format);
  return {owner, owner->log.get()};
}

std::shared_ptr<spdlog::logger> MakeLogger(const std::string& level,
                                           const std::string& format) {
  return MakeAsyncLoggerTo(std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                           level, format);
}

bool FlushLog(spdlog::logger& log, std::chrono::milliseconds timeout) {
  Progress* const progress = ProgressOf(log);
  if (progress != nullptr) return progress->Flush(log, timeout);
  log.flush();
  return true;
}

int64_t DroppedLines(const spdlog::logger& log) {
  const Progress* const progress = ProgressOf(log);
  return progress == nullptr ? 0 : progress->Dropped();
}

void CaptureLibraryLogs(std::shared_ptr<spdlog::logger> log) {
  // Their threads may log until the process ends: never destroyed.
  static auto& target = *new std::shared_ptr<spdlog::logger>();
  target = std::move(log);
  // Strangers can make gRPC complain, as often as they like.
  static LineLimiter limiter(kLibraryErrors);
  SetLibraryLogHandler([](LibrarySeverity severity, std::string_view library,
                          std::string_view text) {
    if (severity == LibrarySeverity::kFatal) {
      // The process aborts next, and lines that still wait would be lost.
      target->log(spdlog::level::critical, "{}: {}", library, text);
      FlushLog(*target, kLastWords);
      return;
    }
    // protobuf's errors are malformed requests: the call's own line has them.
    const bool is_error =
        severity == LibrarySeverity::kError && library != "protobuf";
    const auto level = is_error ? spdlog::level::err : spdlog::level::debug;
    if (!target->should_log(level)) return;
    if (is_error) {
      const auto missing = limiter.Pass();
      if (!missing.has_value()) return;
      if (*missing > 0) {
        target->log(level, "gRPC: {} errors were left out", *missing);
      }
    }
    target->log(level, "{}: {}", library, text);
  });
}

void LogObject(spdlog::logger& log, spdlog::level::level_enum level,
               const std::string& object) {
  log.log(level, kFieldsMark + object);
}

}  // namespace topk
