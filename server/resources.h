// The resources of this machine that the settings give to a server.
#pragma once

#include <cstdint>

#include "core/engine.h"
#include "server/admission/in_flight_limiter.h"
#include "server/config/config.h"

namespace topk {

/// Threads that compute.
int ComputeThreads(const ServerConfig& config);

/// Threads that poll.
int Pollers(const ServerConfig& config);

/// Limits of calls and requests in flight.
AdmissionLimits LimitsInFlight(const ServerConfig& config);

/// Limit of gRPC's receive buffers, in bytes.
int64_t ReceiveMemory(const ServerConfig& config);

/// Options of the engine and of its backends.
EngineOptions OptionsOfEngine(const ServerConfig& config);
BackendOptions OptionsOfBackends(const ServerConfig& config);

}  // namespace topk
