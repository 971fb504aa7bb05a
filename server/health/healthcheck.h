// The probe of containers: is the server serving?
#pragma once

#include "server/config/config.h"

namespace topk {

/// Asks the server and returns the exit status, as grpc_health_probe has it:
/// 0 serving, 2 no connection in time, 3 the call failed, 4 not serving.
/// Reports failures on stderr.
int RunHealthcheck(const HealthcheckConfig& config);

}  // namespace topk
