#include "server/telemetry/logging.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "proto/library_versions.h"
#include "server/telemetry/line_limiter.h"

namespace topk {
namespace {

using json = nlohmann::ordered_json;

// A message that begins with this mark is a JSON object of log fields. Clients
// cannot forge the mark, because no message begins with text from a client.
constexpr char kFieldsMark = '\x1e';

// Formats a message as a line of text or as a JSON object. Both formats escape
// control characters, so a message cannot forge another line.
class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(bool as_json) : as_json_(as_json) {}

  void format(const spdlog::details::log_msg& msg,
              spdlog::memory_buf_t& out) override {
    std::string text(msg.payload.data(), msg.payload.size());
    const bool is_object = text.starts_with(kFieldsMark);
    if (!as_json_ && !is_object) {
      text = EscapeControls(text);
      spdlog::details::log_msg escaped = msg;
      escaped.payload = text;
      return pattern_.format(escaped, out);
    }
    text = is_object ? text.substr(2)  // without the mark and the brace
                     : json{{"msg", text}}
                           .dump(-1, ' ', true, json::error_handler_t::replace)
                           .substr(1);
    const std::chrono::duration<double> time = msg.time.time_since_epoch();
    fmt::format_to(std::back_inserter(out),
                   R"({{"ts":{:.6f},"level":"{}",{})"
                   "\n",
                   time.count(), spdlog::level::to_string_view(msg.level),
                   text);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(as_json_);
  }

 private:
  const bool as_json_;
  spdlog::pattern_formatter pattern_{"%Y-%m-%dT%H:%M:%S.%e%z %l %v"};
};

// A sink that sets `flushed` when the logging thread flushes the sink.
class FlushSignal final
    : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::promise<void> flushed;

 private:
  void sink_it_(const spdlog::details::log_msg&) override {}
  void flush_() override { flushed.set_value(); }
};

// Returns the queue and the thread that all loggers share. Never destroyed,
// because gRPC's threads may log until the process ends.
const std::shared_ptr<spdlog::details::thread_pool>& Writer() {
  constexpr size_t kMaxWaitingLines = 4096;
  static const auto& writer = *new auto(
      std::make_shared<spdlog::details::thread_pool>(kMaxWaitingLines, 1));
  return writer;
}

std::shared_ptr<spdlog::logger> MakeAsyncLogger(
    std::shared_ptr<spdlog::sinks::sink> sink) {
  return std::make_shared<spdlog::async_logger>(
      "topkd", std::move(sink), Writer(),
      spdlog::async_overflow_policy::overrun_oldest);
}

}  // namespace

void Configure(spdlog::logger& log, const std::string& level,
               const std::string& format) {
  log.set_formatter(std::make_unique<LineFormatter>(format == "json"));
  log.set_level(spdlog::level::from_str(level));
}

std::shared_ptr<spdlog::logger> MakeLogger(const std::string& level,
                                           const std::string& format) {
  auto log = MakeAsyncLogger(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  Configure(*log, level, format);
  return log;
}

bool FlushLog(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kRetryInterval{50};
  const auto end = std::chrono::steady_clock::now() + timeout;
  do {
    const auto signal = std::make_shared<FlushSignal>();
    const auto request = MakeAsyncLogger(signal);
    request->flush();
    if (signal->flushed.get_future().wait_for(kRetryInterval) ==
        std::future_status::ready) {
      return true;
    }
    // Retry, because newer lines may have pushed the flush request out of the
    // full queue.
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

int64_t DroppedLines() {
  return static_cast<int64_t>(Writer()->overrun_counter());
}

void CaptureLibraryLogs(std::shared_ptr<spdlog::logger> log) {
  // Never destroyed; see Writer().
  static auto& target = *new std::shared_ptr<spdlog::logger>();
  target = std::move(log);
  // Limit the number of lines, because any client can make gRPC log errors,
  // e.g. with an HTTP request to a TLS port.
  static LineLimiter limiter(1);
  SetLibraryLogHandler([](LibrarySeverity severity, std::string_view library,
                          std::string_view text) {
    if (severity == LibrarySeverity::kFatal) {
      // Flush, because the process aborts next and would lose queued lines.
      target->critical("{}: {}", library, text);
      FlushLog(std::chrono::seconds(1));
      return;
    }
    // Log protobuf errors at debug: malformed requests are logged separately.
    const bool is_error =
        severity == LibrarySeverity::kError && library != "protobuf";
    const auto level = is_error ? spdlog::level::err : spdlog::level::debug;
    if (!target->should_log(level)) return;
    const std::optional<int64_t> unlogged = is_error ? limiter.Pass() : 0;
    if (!unlogged.has_value()) return;
    target->log(level, "{}: {}{}", library, text,
                *unlogged == 0
                    ? ""
                    : StrCat("; ", *unlogged, " earlier errors not logged"));
  });
}

void LogObject(spdlog::logger& log, spdlog::level::level_enum level,
               const std::string& object) {
  log.log(level, kFieldsMark + object);
}

}  // namespace topk
