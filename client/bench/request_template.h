// Requests that the load generator sends repeatedly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/bench/mix.h"
#include "topk/request.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {
class Engine;
}

namespace topk::cli {

/// A kind of request and its randomly generated tensor data.
struct RequestTemplate {
  std::string name;
  double weight = 1;
  /// The data of the tensor of each request.
  std::shared_ptr<const std::string> tensor;
  /// The requests of one call.
  std::vector<Request> requests;
  /// The size of one request including its data.
  int64_t request_bytes = 0;
  /// The expected response to each request, if responses are verified.
  std::optional<v1::TopKResponse> expected;
};

/// Returns a template with random elements: floats from 0 to 1, integers with
/// random bits. `batch` is the number of requests per call. Returns
/// INVALID_ARGUMENT with the flag or the line of the mix if the dialect does
/// not support the flags, or if `in_one_message` and the tensor is too large
/// for a message.
Result<RequestTemplate> MakeRequestTemplate(const RequestSpec& spec,
                                            bool in_one_message, int64_t batch,
                                            uint64_t seed);

/// Computes and sets the expected response. Returns the errors of
/// Engine::Compute().
Status SetExpected(const Engine& engine, RequestTemplate& kind);

}  // namespace topk::cli
