#include "server/resources.h"

#include <algorithm>

#include "core/base/processors.h"
#include "server/admission/memory_limit.h"

namespace topk {
namespace {

// Returns a limit that was set, or a fraction of another.
int64_t Or(int64_t set, double fraction, int64_t of) {
  return set > 0 ? set
                 : static_cast<int64_t>(fraction * static_cast<double>(of));
}

// Fractions of the memory: for requests in flight, and for gRPC's receive
// buffers. The latter is larger, because messages occupy the buffers before
// they are admitted, and gRPC ends calls without a message if the buffers run
// out. Both count some of the same bytes; the rest is for the process itself.
constexpr double kInflight = 0.25;
constexpr double kReceived = 0.6;

}  // namespace

int ComputeThreads(const ServerConfig& config) {
  return config.threads > 0 ? config.threads : AvailableProcessors();
}

// Each poller takes events that another must be woken to see: on two CPUs a
// second one adds 15 us to a small call.
int Pollers(const ServerConfig& config) {
  return config.pollers > 0 ? config.pollers
                            : std::max(1, ComputeThreads(config) / 2);
}

AdmissionLimits LimitsInFlight(const ServerConfig& config) {
  AdmissionLimits limits;
  limits.bytes = Or(config.max_inflight_bytes, kInflight, MemoryLimit());
  limits.client_bytes = Or(config.max_client_inflight_bytes, 0.5, limits.bytes);
  limits.calls = config.max_inflight_calls;
  limits.client_calls = config.max_client_inflight_calls > 0
                            ? config.max_client_inflight_calls
                            : limits.calls - limits.calls / 2;
  return limits;
}

int64_t ReceiveMemory(const ServerConfig& config) {
  return Or(config.max_receive_memory, kReceived, MemoryLimit());
}

EngineOptions OptionsOfEngine(const ServerConfig& config) {
  return {ComputeThreads(config),
          {config.max_elements, config.max_output_bytes,
           config.max_selected_elements, config.max_rank},
          OptionsOfBackends(config)};
}

BackendOptions OptionsOfBackends(const ServerConfig& config) {
  return {config.backend, config.device_memory_bytes};
}

}  // namespace topk
