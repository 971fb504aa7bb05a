#include "client/bench/path.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "topk/shared_memory.h"

namespace topk::cli {
namespace {

Answers One(Result<v1::TopKResponse> answer) {
  Answers answers;
  answers.push_back(std::move(answer));
  return answers;
}

Send Unary(const Client& client) {
  return [&client](const RequestTemplate& kind) {
    return One(client.ComputeTopK(kind.requests.front()));
  };
}

Send Stream(const Client& client) {
  return [&client](const RequestTemplate& kind) {
    return One(client.StreamTopK(kind.requests.front(),
                                 std::as_bytes(std::span(kind.tensor))));
  };
}

Send Many(const Client& client) {
  return [&client](const RequestTemplate& kind) {
    return client.ComputeTopKMany(kind.requests);
  };
}

// Returns a Send that passes input tensors in shared memory, with one region
// for each kind of request. Outputs are not in shared memory.
Send InSharedMemory(const Client& client) {
  struct Input {
    SharedMemory memory;
    v1::TopKRequest request;
  };
  const auto tensors =
      std::make_shared<std::map<const RequestTemplate*, Input>>();
  return [&client, tensors](const RequestTemplate& kind) {
    auto found = tensors->find(&kind);
    if (found == tensors->end()) {
      auto memory = SharedMemory::Create("", kind.tensor.size());
      if (!memory.ok()) return One(memory.status());
      std::ranges::copy(std::as_bytes(std::span(kind.tensor)),
                        memory->data().begin());
      v1::TopKRequest request = kind.requests.front();
      *request.mutable_tensor()->mutable_shared_memory() =
          memory->Region(0, kind.tensor.size());
      Input input{*std::move(memory), std::move(request)};
      found = tensors->emplace(&kind, std::move(input)).first;
    }
    return One(client.ComputeTopK(found->second.request));
  };
}

constexpr BenchPath kPaths[] = {{"unary", false, false, Unary},
                                {"stream", true, false, Stream},
                                {"many", false, true, Many},
                                {"shm", true, false, InSharedMemory}};

}  // namespace

std::span<const BenchPath> BenchPaths() { return kPaths; }

}  // namespace topk::cli
