// Requests that the load generator sends repeatedly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/bench/mix.h"
#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {
class Engine;
}

namespace topk::cli {

/// A kind of request with its random data.
struct RequestTemplate {
  std::string name;
  double weight = 1;
  /// The requests of one call.
  std::vector<v1::TopKRequest> requests;
  /// The tensor's data if TransportOptions::separate_tensor is set. Otherwise
  /// the data is in `requests`.
  std::string tensor;
  /// The size of one request including its data.
  int64_t request_bytes = 0;
  /// The expected response to each request, if responses are verified.
  std::optional<v1::TopKResponse> expected;
};

/// How a call transports its tensors.
struct TransportOptions {
  /// Whether the tensor is passed separately from the request, so that the
  /// message size limit does not apply to it.
  bool separate_tensor = false;
  /// The number of requests per call; 1 if `separate_tensor`.
  int64_t batch = 1;
};

/// Returns a template with random elements: floats from 0 to 1, integers with
/// random bits. Returns INVALID_ARGUMENT with the flag or the line of the mix
/// if the tensor is too large for a message, the batch exceeds 4 GiB, or the
/// dialect does not support the flags.
Result<RequestTemplate> MakeRequestTemplate(const RequestSpec& spec,
                                            const TransportOptions& transport,
                                            uint64_t seed);

/// Computes and sets the expected response. Returns the errors of
/// Engine::Compute().
Status SetExpected(const Engine& engine, RequestTemplate& kind);

}  // namespace topk::cli
