// Logs on stderr: a line of text or a JSON object each.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace topk {

/// One access line's worth of a finished call. Texts may hold anything.
struct AccessRecord {
  std::string_view method;
  std::string_view peer;
  std::string_view request_id;
  std::string_view code;
  std::string_view message;
  int64_t request_bytes = 0;
  int64_t response_bytes = 0;
  int64_t compute_microseconds = 0;
};

/// Returns a logger to stderr. `level` is one of spdlog's names, `format` is
/// text or json. In json every line is a valid object whatever the message
/// holds: {"ts","level","msg"} and, for access lines, the record's fields.
std::shared_ptr<spdlog::logger> MakeLogger(const std::string& level,
                                           const std::string& format);

/// Returns a logger like MakeLogger's that writes to a sink of the caller's.
std::shared_ptr<spdlog::logger> MakeLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format);

/// Makes the messages of gRPC and protobuf, which they write to stderr as they
/// are, lines of this log. For the whole process and for good; call it before
/// gRPC is used.
void CaptureLibraryLogs(std::shared_ptr<spdlog::logger> log);

/// Logs a finished call: at debug if it was OK, else at info. Never the tensor.
void LogAccess(spdlog::logger& log, const AccessRecord& record);

}  // namespace topk
