#include "client/cli/bench_path.h"

namespace topk::cli {
namespace {

Answers One(Result<v1::TopKResponse> answer) {
  Answers answers;
  answers.push_back(std::move(answer));
  return answers;
}

Send Unary(const Client& client) {
  return [&client](const Kind& kind) {
    return One(client.ComputeTopK(kind.requests.front()));
  };
}

Send Stream(const Client& client) {
  return [&client](const Kind& kind) {
    return One(client.StreamTopK(kind.requests.front(),
                                 std::as_bytes(std::span(kind.tensor))));
  };
}

Send Many(const Client& client) {
  return [&client](const Kind& kind) {
    return client.ComputeTopKMany(kind.requests);
  };
}

constexpr BenchPath kPaths[] = {{"unary", false, false, Unary},
                                {"stream", true, false, Stream},
                                {"many", false, true, Many}};

}  // namespace

std::span<const BenchPath> BenchPaths() { return kPaths; }

}  // namespace topk::cli
