// What is known about one call.
#pragma once

#include <grpcpp/server_context.h>

#include <chrono>
#include <memory>
#include <string_view>

#include "server/admission/in_flight_limiter.h"
#include "server/security/authenticator.h"
#include "server/telemetry/trace_context.h"

namespace topk {

class CallSpan;

/// Data shared by all requests of one call.
struct CallInfo {
  const grpc::ServerContext* context = nullptr;
  std::string_view method = {};
  /// When the call's headers arrived.
  std::chrono::steady_clock::time_point arrived = {};
  TraceContext trace = {};
  /// Null unless the call is sampled.
  std::shared_ptr<CallSpan> span = {};
  // AdmissionController::AdmitCall() sets the members below.
  Caller caller = {};
  /// Counts the call as in flight.
  InFlightLimiter::Slot slot = {};
};

}  // namespace topk
