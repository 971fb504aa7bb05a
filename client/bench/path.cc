#include "client/bench/path.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "topk/shared_memory.h"

namespace topk::cli {
namespace {

Answers One(Result<Response> answer) {
  Answers answers;
  answers.push_back(std::move(answer));
  return answers;
}

Send Unary(const Client& client) {
  return [&client](const RequestTemplate& kind) {
    return One(client.ComputeTopK(kind.requests.front(), {.stream = false}));
  };
}

Send Stream(const Client& client) {
  return [&client](const RequestTemplate& kind) {
    return One(client.ComputeTopK(kind.requests.front(), {.stream = true}));
  };
}

Send Many(const Client& client) {
  return [&client](const RequestTemplate& kind) {
    Answers answers;
    (void)client.ComputeTopKMany(kind.requests, [&](size_t, auto answer) {
      answers.push_back(std::move(answer));
    });
    return answers;
  };
}

// Returns a Send that passes input tensors in shared memory, with one region
// for each kind of request. Outputs are not in shared memory.
Send InSharedMemory(const Client& client) {
  struct Input {
    SharedMemory memory;
    Request request;
  };
  const auto tensors =
      std::make_shared<std::map<const RequestTemplate*, Input>>();
  return [&client, tensors](const RequestTemplate& kind) {
    auto found = tensors->find(&kind);
    if (found == tensors->end()) {
      auto memory = SharedMemory::Create("", kind.tensor->size());
      if (!memory.ok()) return One(memory.status());
      std::ranges::copy(std::as_bytes(std::span(*kind.tensor)),
                        memory->data().begin());
      v1::TopKRequest message = kind.requests.front().message();
      *message.mutable_tensor()->mutable_shared_memory() =
          memory->Region(0, kind.tensor->size());
      Input input{*std::move(memory), Request(std::move(message))};
      found = tensors->emplace(&kind, std::move(input)).first;
    }
    return One(client.ComputeTopK(found->second.request));
  };
}

constexpr BenchPath kPaths[] = {{"unary", true, false, Unary},
                                {"stream", false, false, Stream},
                                {"many", true, true, Many},
                                {"shm", false, false, InSharedMemory}};

}  // namespace

std::span<const BenchPath> BenchPaths() { return kPaths; }

}  // namespace topk::cli
