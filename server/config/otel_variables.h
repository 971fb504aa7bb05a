// OpenTelemetry's environment variables.
#pragma once

#include <functional>
#include <string>

#include "server/telemetry/trace_context.h"

namespace topk {

/// Checks the URL of a collector, http://host:port or https://host:port, and
/// adds the default port if there is none. Returns "", or an error message.
std::string CheckCollector(std::string& url);

/// Returns the trace settings from OpenTelemetry's environment variables. A
/// nonempty `endpoint` overrides the endpoint variables. As the specification
/// requires, invalid values are ignored with a warning. `variable` returns the
/// value of an environment variable, or "" if it is not set.
TraceConfig ReadTraceConfig(
    const std::string& endpoint,
    const std::function<std::string(const std::string&)>& variable);

}  // namespace topk
