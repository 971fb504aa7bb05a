#include "server/calls/access_log.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "server/telemetry/logging.h"

namespace topk {
namespace {

using json = nlohmann::ordered_json;

int64_t NanosecondsSince(RequestStats::Clock::time_point start) {
  return std::chrono::nanoseconds(RequestStats::Clock::now() - start).count();
}

void AddText(json& fields, const char* name, std::string_view text,
             size_t most = kMaxText) {
  if (!text.empty()) fields[name] = text.substr(0, most);
}

}  // namespace

void AccessLog::Record(const CallInfo& call, const v1::TopKRequest& request,
                       const RequestStats& stats, const Status& status) {
  auto level = spdlog::level::debug;
  LineLimiter* limiter = nullptr;
  if (slow_nanoseconds_ > 0 &&
      NanosecondsSince(stats.begun) > slow_nanoseconds_) {
    level = spdlog::level::warn;
    limiter = &slow_;
  } else if (!status.ok()) {
    level = spdlog::level::info;
    limiter = &failed_;
  } else if (sample_ > 0 &&
             static_cast<double>(NewTraceId()) <= sample_ * 0x1p64) {
    level = spdlog::level::info;
  } else if (sample_ > 0 && call.trace.sampled) {
    level = spdlog::level::info;
    limiter = &traced_;
  }
  if (!log_.should_log(level)) return;
  const std::optional<int64_t> suppressed =
      limiter == nullptr ? 0 : limiter->Pass();
  if (!suppressed.has_value()) return;
  LogObject(log_, level,
            AccessFields(call, request, stats, status, *suppressed));
}

std::string AccessFields(const CallInfo& call, const v1::TopKRequest& request,
                         const RequestStats& stats, const Status& status,
                         int64_t suppressed) {
  json fields = {{"msg", "call"}, {"method", call.method}};
  if (!call.caller.peer.empty()) {
    AddText(fields, "peer", call.caller.peer);
  } else if (call.context != nullptr) {  // a caller that was not admitted
    AddText(fields, "peer", call.context->peer());
  }
  if (call.caller.authenticated) {
    AddText(fields, "principal", call.caller.name);
  }
  fields["trace_id"] = TraceId(call.trace);
  fields["span_id"] = SpanId(call.trace.span);
  if (call.trace.parent != 0) {
    fields["parent_span_id"] = SpanId(call.trace.parent);
  }
  AddText(fields, "tracestate", call.trace.state, kMaxTraceState);
  fields["code"] = CodeName(status.code);
  AddText(fields, "reason", status.reason);
  AddText(fields, "error", status.message, kMaxErrorText);
  for (const auto& [name, value] : PropertiesOf(request, stats)) {
    std::visit(
        [&field = fields[name]](const auto& property) { field = property; },
        value);
  }
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
