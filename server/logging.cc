#include "server/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace topk {
namespace {

using nlohmann::json;

// Access lines are JSON texts in either format; this byte marks them for the
// JSON formatter, which splices them in. No other message can begin with it:
// the text formatter below is the only other reader, and it drops it.
constexpr char kFieldsMark = '\x1e';

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
    json line = {
        {"ts",
         std::chrono::duration<double>(msg.time.time_since_epoch()).count()},
        {"level", std::string(level.data(), level.size())}};
    std::string_view text = Payload(msg);
    if (!text.empty() && text.front() == kFieldsMark) {
      line.update(json::parse(text.substr(1)));
    } else {
      line["msg"] = std::string(text);
    }
    const std::string written = ToText(line);
    out.append(written.data(), written.data() + written.size());
    out.push_back('\n');
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

// Writes "time level text", control characters escaped, so that a message
// cannot forge a line.
class TextFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& msg,
              spdlog::memory_buf_t& out) override {
    std::string text;
    for (const char c : Payload(msg)) {
      if (c == kFieldsMark) continue;
      text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
    spdlog::details::log_msg clean = msg;
    clean.payload = text;
    pattern_.format(clean, out);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<TextFormatter>();
  }

 private:
  spdlog::pattern_formatter pattern_{"%Y-%m-%dT%H:%M:%S.%e%z %l %v"};
};

}  // namespace

std::shared_ptr<spdlog::logger> MakeLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format) {
  if (format == "json") {
    sink->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    sink->set_formatter(std::make_unique<TextFormatter>());
  }
  auto log = std::make_shared<spdlog::logger>("topkd", std::move(sink));
  log->set_level(spdlog::level::from_str(level));
  log->flush_on(spdlog::level::info);
  return log;
}

std::shared_ptr<spdlog::logger> MakeLogger(const std::string& level,
                                           const std::string& format) {
  return MakeLoggerTo(std::make_shared<spdlog::sinks::stderr_sink_mt>(), level,
                      format);
}

void LogAccess(spdlog::logger& log, const AccessRecord& record) {
  const bool ok = record.code == "OK";
  const auto level = ok ? spdlog::level::debug : spdlog::level::info;
  if (!log.should_log(level)) return;
  json fields = {{"msg", "call"},
                 {"method", record.method},
                 {"peer", record.peer},
                 {"code", record.code},
                 {"request_bytes", record.request_bytes},
                 {"response_bytes", record.response_bytes},
                 {"compute_us", record.compute_microseconds}};
  if (!record.request_id.empty()) fields["request_id"] = record.request_id;
  if (!ok) fields["error"] = record.message;
  log.log(level, kFieldsMark + ToText(fields));
}

}  // namespace topk
