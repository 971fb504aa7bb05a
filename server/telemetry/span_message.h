// Spans as messages of OpenTelemetry's protocol.
#pragma once

#include <chrono>
#include <map>
#include <span>
#include <string>

#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "server/telemetry/span.h"

namespace topk {

/// Returns a request with the resource, and no spans yet.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest
MakeExportRequest(const std::map<std::string, std::string>& resource);

/// Replaces the request's spans. `clock_offset` is what to add to a time of
/// Span::Clock for the time since 1970.
void SetSpans(
    std::span<const Span> spans, std::chrono::nanoseconds clock_offset,
    opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest& to);

}  // namespace topk
