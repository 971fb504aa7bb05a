// The log on stderr: each line is text or a JSON object.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace topk {

/// The number of lines that may be queued. A newer line displaces the oldest.
inline constexpr size_t kMaxWaitingLines = 4096;

/// Returns a logger to `sink`, by default to stderr. `level` is one of spdlog's
/// names, `format` is text or json; see Configure().
///
/// A background thread writes, so that logging never blocks: while the sink
/// accepts no data, lines are queued, and the oldest are dropped if the queue
/// is full. All loggers share the queue and the thread.
std::shared_ptr<spdlog::logger> MakeLogger(
    const std::string& level, const std::string& format,
    std::shared_ptr<spdlog::sinks::sink> sink = nullptr);

/// Sets the level and the format of a logger. With json, every line is a valid
/// object, whatever the message contains: {"ts","level","msg"}. With text, only
/// the lines of LogObject() are objects.
void Configure(spdlog::logger& log, const std::string& level,
               const std::string& format);

/// Blocks until all lines logged so far are written, at most for `timeout`.
/// Returns whether they are. If the queue is full, this displaces lines, so
/// call it only when the process ends.
bool FlushLog(std::chrono::milliseconds timeout);

/// Returns the number of lines that were dropped because the queue was full.
int64_t DroppedLines();

/// Writes the messages of gRPC and protobuf to this log, until the process
/// ends. By default these libraries write to stderr. Call this before gRPC is
/// used.
void CaptureLibraryLogs(std::shared_ptr<spdlog::logger> log);

/// Logs a JSON object, to which the line adds the fields "ts" and "level". The
/// line is a JSON object in both formats.
void LogObject(spdlog::logger& log, spdlog::level::level_enum level,
               const std::string& object);

}  // namespace topk
