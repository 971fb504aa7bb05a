// The environment variables of OpenTelemetry.
#pragma once

#include <functional>
#include <string>

#include "server/telemetry/trace_context.h"

namespace topk {

/// Returns the settings from OpenTelemetry's variables. If `endpoint` is not
/// empty, it takes precedence over the variables of the endpoint. As in the
/// specification, a variable with an invalid value is ignored with a warning.
/// `variable` returns the value of an environment variable, or "" if the
/// variable is not set.
TraceConfig ReadTraceConfig(
    const std::string& endpoint,
    const std::function<std::string(const std::string&)>& variable);

}  // namespace topk
