// Runs a request along every path through the core.
#pragma once

#include <tbb/task_arena.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/answer.h"
#include "core/backends/cpu/run_schedule.h"
#include "core/dialects/registry.h"
#include "core/engine.h"
#include "tests/support/backends.h"
#include "tests/support/compute.h"
#include "tests/support/generators.h"

namespace topk::testing {

/// A path through the core, and its result.
struct Outcome {
  std::string path;
  Result<v1::TopKResponse> response;
};

/// Feeds the data in pieces of `piece` bytes. 0 means the whole data, and a
/// negative number means random pieces of 1 .. -piece bytes.
template <class Feed>
Status FeedInPieces(const std::string& data, int64_t piece, Random& random,
                    const Feed& feed) {
  auto rest = std::as_bytes(std::span(data));
  while (!rest.empty()) {
    size_t size = rest.size();
    if (piece != 0) {
      const int64_t wanted = piece > 0 ? piece : Pick(random, 1, -piece);
      size = std::min(size, static_cast<size_t>(wanted));
    }
    // A copy, to detect a fold that keeps a reference to the piece.
    const std::vector<std::byte> copy(rest.begin(), rest.begin() + size);
    if (Status s = feed(copy); !s.ok()) return s;
    rest = rest.subspan(size);
  }
  return {};
}

/// Runs a request as a stream, in pieces as for FeedInPieces().
inline Result<v1::TopKResponse> Stream(const Engine& engine,
                                       const v1::TopKRequest& request,
                                       int64_t piece, Random& random) {
  v1::TopKRequest header = request;
  header.mutable_tensor()->clear_source();
  Result<TensorStream> stream = StartStream(engine, header);
  if (!stream.ok()) return stream.status();
  Status fed = FeedInPieces(
      request.tensor().data(), piece, random,
      [&](std::span<const std::byte> p) { return stream->Feed(p); });
  if (!fed.ok()) return fed;
  return stream->Finish();
}

/// Runs a request on one backend, bypassing the engine's choice. Returns
/// nullopt if the backend declines the plan. If `piece` is set, uses a fold
/// that is fed as above, unless the tensor has strides.
inline std::optional<Result<v1::TopKResponse>> RunOn(
    const Backend& backend, const v1::TopKRequest& request,
    std::optional<int64_t> piece, Random& random) {
  const Result<Plan> plan = Lower(request, Limits());
  if (!plan.ok()) return plan.status();
  const auto prepared = backend.Prepare(*plan);
  if (!prepared.ok()) return std::nullopt;
  const std::string& data = request.tensor().data();
  if (Status s = CheckPayload(*plan, static_cast<int64_t>(data.size()));
      !s.ok()) {
    return s;
  }
  v1::TopKResponse response;
  response.set_request_id(request.request_id());
  const Outputs outputs = PrepareOutputs(*plan, response);
  if (!piece || !plan->input.packed) {
    RunWhole(**prepared, std::as_bytes(std::span(data)), outputs);
    return response;
  }
  const std::unique_ptr<Fold> fold = *(*prepared)->StartFold(outputs, nullptr);
  (void)FeedInPieces(data, *piece, random, [&](std::span<const std::byte> p) {
    fold->Feed(p);
    return Status();
  });
  fold->Finish();
  return response;
}

/// Engines with 1, 2 and 4 threads, and all backends in this build.
class Everywhere {
 public:
  Everywhere() {
    for (const int threads : {1, 2, 4}) {
      engines_.push_back(std::make_unique<Engine>(EngineOptions{threads, {}}));
      for (auto& backend : AllBackends(threads)) {
        backends_.push_back(std::move(backend));
      }
    }
  }

  /// Returns an outcome for each path. Any backend except the last may decline
  /// a plan; it then has no outcome.
  std::vector<Outcome> Run(const v1::TopKRequest& request,
                           Random& random) const {
    std::vector<Outcome> outcomes;
    for (size_t i = 0; i < engines_.size(); ++i) {
      outcomes.push_back({"engine", Compute(*engines_[i], request)});
    }
    // The engine rejects tensors in shared memory.
    if (request.tensor().has_shared_memory()) return outcomes;
    for (const auto& backend : backends_) {
      for (const std::optional<int64_t> piece :
           {std::optional<int64_t>(), std::optional<int64_t>(-1000)}) {
        auto outcome = RunOn(*backend, request, piece, random);
        if (outcome) {
          outcomes.push_back({Describe(*backend) + (piece ? " fold" : ""),
                              *std::move(outcome)});
        }
      }
    }
    for (const int64_t piece : {0, 1, 3, 7, -64}) {
      outcomes.push_back({"stream of " + std::to_string(piece),
                          Stream(*engines_[0], request, piece, random)});
    }
    return outcomes;
  }

 private:
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

/// Runs a request with all applicable algorithms, even those that would not be
/// chosen, on all instruction sets. Tasks take about `task` nanoseconds.
inline std::vector<Outcome> RunAlgorithms(const v1::TopKRequest& request,
                                          int threads, double task) {
  static tbb::task_arena arena(3);
  std::vector<Outcome> outcomes;
  const Result<Plan> plan = Lower(request, Limits());
  if (!plan.ok()) return {{"lowering", plan.status()}};
  if (plan->slices() == 0) return outcomes;  // nothing to run
  for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
    for (const cpu::Algorithm algorithm :
         {cpu::Algorithm::kShortRows, cpu::Algorithm::kScan,
          cpu::Algorithm::kSort, cpu::Algorithm::kColumns}) {
      if (!CanRun(algorithm, *plan)) continue;
      const cpu::Schedule schedule = cpu::Cut(algorithm, *plan, threads, task);
      v1::TopKResponse response;
      response.set_request_id(request.request_id());
      const Outputs outputs = PrepareOutputs(*plan, response);
      const auto run = [&] {
        cpu::RunSchedule(
            *plan, schedule, set,
            reinterpret_cast<const std::byte*>(request.tensor().data().data()),
            outputs);
      };
      schedule.run_inline ? run() : arena.execute(run);
      outcomes.push_back(
          {std::string(NameOf(schedule)) + " on " + std::string(set.name),
           std::move(response)});
    }
  }
  return outcomes;
}

}  // namespace topk::testing
