#include "server/logging.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace topk {
namespace {

using json = nlohmann::ordered_json;

// An access line is a JSON object in either format. This byte before it tells
// the JSON formatter to splice it in instead of quoting it; the text formatter
// drops it. Other messages begin with words of ours.
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

void CaptureLibraryLogs(std::shared_ptr<spdlog::logger> log) {
  // Their threads may log until the process ends: never destroyed.
  static auto& target = *new std::shared_ptr<spdlog::logger>();
  target = std::move(log);
  gpr_set_log_function([](gpr_log_func_args* args) {
    const auto level = args->severity == GPR_LOG_SEVERITY_ERROR
                           ? spdlog::level::err
                           : spdlog::level::debug;
    target->log(level, "gRPC: {}", args->message);
  });
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel severity,
                                     const char*, int,
                                     const std::string& message) {
    // Its "errors" are clients' bad bytes; the call's own line tells of them.
    const auto level = severity == google::protobuf::LOGLEVEL_FATAL
                           ? spdlog::level::critical
                           : spdlog::level::debug;
    target->log(level, "protobuf: {}", message);
  });
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
