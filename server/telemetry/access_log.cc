#include "server/telemetry/access_log.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/request_facts.h"

namespace topk {
namespace {

using json = nlohmann::ordered_json;

// Bounds on text chosen by clients, so that they cannot make lines long.
constexpr size_t kMaxLogged = 256;
constexpr size_t kMaxError = 1024;

int64_t NanosecondsSince(RequestStats::Clock::time_point start) {
  return std::chrono::nanoseconds(RequestStats::Clock::now() - start).count();
}

void AddText(json& fields, const char* name, std::string_view text,
             size_t most = kMaxLogged) {
  if (!text.empty()) fields[name] = text.substr(0, most);
}

}  // namespace

AccessLog::AccessLog(spdlog::logger& log, const AccessOptions& options)
    : log_(log),
      slow_nanoseconds_(options.slow_nanoseconds),
      sampler_(options.sample) {}

std::optional<AccessLog::Line> AccessLog::Choose(const CallInfo& call,
                                                 const RequestStats& stats,
                                                 const Status& status) {
  const auto limited = [this](LineLimiter& limiter,
                              spdlog::level::level_enum level) {
    std::optional<Line> line;
    if (!log_.should_log(level)) return line;
    if (const auto missing = limiter.Pass(); missing.has_value()) {
      line = {level, *missing};
    }
    return line;
  };
  if (slow_nanoseconds_ > 0 &&
      NanosecondsSince(stats.begun) > slow_nanoseconds_) {
    return limited(slow_, spdlog::level::warn);
  }
  if (!status.ok()) return limited(failed_, spdlog::level::info);
  const bool picked = sampler_.on() && log_.should_log(spdlog::level::info) &&
                      (call.trace.sampled || sampler_.Pick());
  const auto level = picked ? spdlog::level::info : spdlog::level::debug;
  if (!log_.should_log(level)) return std::nullopt;
  return Line{level, 0};
}

void AccessLog::Record(const CallInfo& call, const v1::TopKRequest& request,
                       const RequestStats& stats, const Status& status) {
  if (const auto line = Choose(call, stats, status); line.has_value()) {
    LogObject(log_, line->level,
              AccessFields(call, request, stats, status, line->suppressed));
  }
}

std::string AccessFields(const CallInfo& call, const v1::TopKRequest& request,
                         const RequestStats& stats, const Status& status,
                         int64_t suppressed) {
  json fields = {{"msg", "call"}, {"method", call.method}};
  if (call.context != nullptr) AddText(fields, "peer", call.context->peer());
  AddText(fields, "principal", call.principal);
  AddText(fields, "request_id", request.request_id());
  fields["trace_id"] = TraceId(call.trace);
  fields["span_id"] = SpanId(call.trace.span);
  if (call.trace.parent != 0) {
    fields["parent_span_id"] = SpanId(call.trace.parent);
  }
  AddText(fields, "tracestate", call.trace.state, kMaxTraceState);
  fields["code"] = CodeName(status.code);
  AddText(fields, "reason", status.reason);
  AddText(fields, "error", status.message, kMaxError);
  // A request that was rejected before it was read has neither.
  if (request.has_spec()) {
    fields["dialect"] = DialectOf(request);
    fields["version"] = request.spec().version();
  }
  if (request.has_tensor()) {
    fields["dtype"] = DTypeOf(request);
    if (const auto elements = ElementsOf(request); elements.has_value()) {
      fields["elements"] = *elements;
    }
    fields["request_bytes"] = stats.tensor_bytes;
  }
  if (const auto k = KOf(request); k.has_value()) fields["k"] = *k;
  AddText(fields, "backend", stats.backend);
  AddText(fields, "kernel", stats.kernel);
  fields["response_bytes"] = stats.answer_bytes;
  for (size_t i = 0; i < kStageNames.size(); ++i) {
    if (stats.nanoseconds[i] < 0) continue;
    fields[StrCat(kStageNames[i], "_us")] = stats.nanoseconds[i] / 1000;
  }
  fields["total_us"] = NanosecondsSince(stats.begun) / 1000;
  if (suppressed > 0) fields["suppressed"] = suppressed;
  return fields.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace topk
