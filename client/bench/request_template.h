// Requests of a kind, ready to be sent again and again.
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
  /// What one call sends.
  std::vector<v1::TopKRequest> requests;
  /// The data, if it goes beside the one request and not in it.
  std::string tensor;
  /// Of one request with its data.
  int64_t request_bytes = 0;
  /// The right answer to each, if answers are compared.
  std::optional<v1::TopKResponse> expected;
};

/// How a call carries its tensors.
struct TransportOptions {
  /// Beside the request, which may then be of any size.
  bool beside = false;
  /// Requests in a call; 1 if beside.
  int64_t batch = 1;
};

/// Makes a kind of the seed's random elements: floats of 0 .. 1, integers of
/// any bits. INVALID_ARGUMENT, naming the flag or the mix's line, for a tensor
/// that no message holds, a batch beyond 4 GiB, or flags that the dialect has
/// no word for.
Result<RequestTemplate> MakeRequestTemplate(const RequestSpec& spec,
                                            const TransportOptions& transport,
                                            uint64_t seed);

/// Computes the answer to expect. Errors: see Engine::Compute().
Status SetExpected(const Engine& engine, RequestTemplate& kind);

}  // namespace topk::cli
