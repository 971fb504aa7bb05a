// Logs lines of text or JSON to stderr.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace topk {

/// Returns a logger that writes to stderr. `level` is one of spdlog's level
/// names. `format` is text or json; see Configure().
///
/// Logging never blocks: lines wait in a queue until a background thread writes
/// them. All loggers share the queue and the thread. A full queue drops its
/// oldest line.
std::shared_ptr<spdlog::logger> MakeLogger(const std::string& level,
                                           const std::string& format);

/// Sets the level and the format of a logger. With json, every line is a valid
/// object {"ts","level","msg"}, whatever the message contains. With text, only
/// LogObject() writes objects.
void Configure(spdlog::logger& log, const std::string& level,
               const std::string& format);

/// Blocks until all lines logged so far are written or `timeout` has passed.
/// Returns whether they were written. If the queue is full, drops its oldest
/// line, so call FlushLog() only when the process ends.
bool FlushLog(std::chrono::milliseconds timeout);

/// Returns the number of lines that were dropped because the queue was full.
int64_t DroppedLines();

/// Redirects the messages of gRPC and protobuf from stderr to this log, until
/// the process ends. Call before using gRPC.
void CaptureLibraryLogs(std::shared_ptr<spdlog::logger> log);

/// Logs a JSON object (in both formats) and adds the fields "ts" and "level".
void LogObject(spdlog::logger& log, spdlog::level::level_enum level,
               const std::string& object);

}  // namespace topk
