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

/// A kind of request and its randomly generated tensor data.
struct RequestTemplate {
  std::string name;
  double weight = 1;
  /// The requests of one call.
  std::vector<v1::TopKRequest> requests;
  /// The tensor's data, unless it is in `requests`.
  std::string tensor;
  /// The size of one request including its data.
  int64_t request_bytes = 0;
  /// The expected response to each request, if responses are verified.
  std::optional<v1::TopKResponse> expected;
};

/// Returns a template with random elements: floats from 0 to 1, integers with
/// random bits. If `separate_tensor` is set, the tensor is not part of the
/// request, so that the message size limit does not apply to it. `batch` is the
/// number of requests per call; 1 if `separate_tensor`. Returns
/// INVALID_ARGUMENT with the flag or the line of the mix if the tensor is too
/// large for a message, the batch exceeds 4 GiB, or the dialect does not
/// support the flags.
Result<RequestTemplate> MakeRequestTemplate(const RequestSpec& spec,
                                            bool separate_tensor, int64_t batch,
                                            uint64_t seed);

/// Computes and sets the expected response. Returns the errors of
/// Engine::Compute().
Status SetExpected(const Engine& engine, RequestTemplate& kind);

}  // namespace topk::cli
