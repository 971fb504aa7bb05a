// The environment variables of OpenTelemetry.
#pragma once

#include <functional>
#include <string>

#include "server/telemetry/trace_context.h"

namespace topk {

/// Returns the settings that OpenTelemetry's variables make. An `endpoint` that
/// is not empty precedes the variables of the endpoint. As OpenTelemetry has
/// it, a variable with an invalid value is ignored, with a warning. `variable`
/// returns the value of an environment variable, "" if it is not set.
TraceConfig ReadTraceConfig(
    const std::string& endpoint,
    const std::function<std::string(const std::string&)>& variable);

}  // namespace topk
