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

// Holds one caller's input tensors in shared memory, one for each kind of
// request. Outputs are not in shared memory.
class SharedTensors {
 public:
  explicit SharedTensors(const Client& client) : client_(client) {}

  Result<v1::TopKResponse> Compute(const RequestTemplate& kind) {
    auto found = shared_.find(&kind);
    if (found == shared_.end()) {
      Result<SharedMemory> memory =
          SharedMemory::Create("", kind.tensor.size());
      if (!memory.ok()) return memory.status();
      std::ranges::copy(std::as_bytes(std::span(kind.tensor)),
                        memory->data().begin());
      v1::TopKRequest request = kind.requests.front();
      *request.mutable_tensor()->mutable_shared_memory() =
          memory->Region(0, kind.tensor.size());
      found = shared_.emplace(&kind, Shared{*std::move(memory), request}).first;
    }
    return client_.ComputeTopK(found->second.request);
  }

 private:
  struct Shared {
    SharedMemory memory;
    v1::TopKRequest request;
  };

  const Client& client_;
  std::map<const RequestTemplate*, Shared> shared_;
};

Send InSharedMemory(const Client& client) {
  const auto tensors = std::make_shared<SharedTensors>(client);
  return [tensors](const RequestTemplate& kind) {
    return One(tensors->Compute(kind));
  };
}

constexpr BenchPath kPaths[] = {{"unary", false, false, Unary},
                                {"stream", true, false, Stream},
                                {"many", false, true, Many},
                                {"shm", true, false, InSharedMemory}};

}  // namespace

std::span<const BenchPath> BenchPaths() { return kPaths; }

}  // namespace topk::cli
