// Logs on stderr: a line of text or a JSON object each.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace topk {

/// How many lines may wait to be written; the oldest make way for more.
inline constexpr size_t kMaxWaitingLines = 4096;

/// Returns a logger to stderr, for the whole process. `level` is one of
/// spdlog's names, `format` is text or json. In json every line is a valid
/// object whatever the message holds: {"ts","level","msg"}; in text, objects
/// logged by LogObject() alone are.
///
/// A background thread writes, so that logging never blocks: while stderr
/// accepts no data, lines are queued, and the oldest are dropped if the queue
/// is full.
std::shared_ptr<spdlog::logger> MakeLogger(const std::string& level,
                                           const std::string& format);

/// Returns a logger like MakeLogger's that writes to a sink of the caller's.
std::shared_ptr<spdlog::logger> MakeAsyncLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format);

/// Returns a logger like MakeAsyncLoggerTo's, but whoever logs writes.
std::shared_ptr<spdlog::logger> MakeLoggerTo(
    std::shared_ptr<spdlog::sinks::sink> sink, const std::string& level,
    const std::string& format);

/// Waits until all logged lines are written, at most for `timeout`; returns
/// whether they are. It blocks other loggers, so call it only when the process
/// ends.
bool FlushLog(spdlog::logger& log, std::chrono::milliseconds timeout);

/// Returns how many lines have been dropped.
int64_t DroppedLines(const spdlog::logger& log);

/// Makes the messages of gRPC and protobuf, which they write to stderr as they
/// are, lines of this log. For the whole process and for good; call it before
/// gRPC is used.
void CaptureLibraryLogs(std::shared_ptr<spdlog::logger> log);

/// Logs the fields of a JSON object, together with "ts" and "level", as one
/// JSON object in either format.
void LogObject(spdlog::logger& log, spdlog::level::level_enum level,
               const std::string& object);

}  // namespace topk
