// Runs a request along every path through the core.
#pragma once

#include <tbb/task_arena.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/backends/cpu/cpu_backend.h"
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

/// Returns a function that returns the length of the next piece: `piece` if
/// positive, a random length in 1 .. -piece if negative, or SIZE_MAX if 0.
inline NextPiece PiecesOf(int64_t piece, Random& random) {
  return [piece, &random] {
    if (piece == 0) return SIZE_MAX;
    return static_cast<size_t>(piece > 0 ? piece : Pick(random, 1, -piece));
  };
}

/// Feeds the data to a stream in pieces.
inline Result<v1::TopKResponse> Stream(const Engine& engine,
                                       const v1::TopKRequest& request,
                                       const NextPiece& next) {
  v1::TopKRequest header = request;
  header.mutable_tensor()->clear_source();
  auto stream = StartStream(engine, header);
  if (!stream.ok()) return stream.status();
  const Status fed = FeedInPieces(
      request.tensor().data(), next,
      [&](std::span<const std::byte> p) { return (*stream)->Feed(p); });
  if (!fed.ok()) return fed;
  return (*stream)->Finish();
}

/// Runs a request on one backend, bypassing the engine's choice. Returns
/// nullopt if the backend declines the plan. If `next` is set and the tensor is
/// contiguous, feeds the tensor to a Fold in pieces.
inline std::optional<Result<v1::TopKResponse>> RunOn(
    const Backend& backend, const v1::TopKRequest& request,
    const NextPiece& next = nullptr) {
  const Result<Plan> plan = Lower(request, Limits());
  if (!plan.ok()) return plan.status();
  const bool folds = next != nullptr && plan->input.contiguous;
  auto prepared =
      backend.Prepare(*plan, folds ? Arrival::kStream : Arrival::kWhole);
  if (prepared == nullptr && folds) {  // a stream would need much memory
    prepared = backend.Prepare(*plan, Arrival::kChunks);
  }
  if (prepared == nullptr) return std::nullopt;
  const std::string& data = request.tensor().data();
  if (Status s = CheckPayload(*plan, static_cast<int64_t>(data.size()));
      !s.ok()) {
    return s;
  }
  v1::TopKResponse response;
  response.set_request_id(request.request_id());
  const Outputs outputs = PrepareOutputs(*plan, response);
  if (!folds) {
    RunWhole(*prepared, std::as_bytes(std::span(data)), outputs);
    return response;
  }
  const std::unique_ptr<Fold> fold = *prepared->StartFold(outputs, nullptr);
  FoldInPieces(data, next, *fold);
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
  /// a plan. A backend that declines has no outcome.
  std::vector<Outcome> Run(const v1::TopKRequest& request,
                           Random& random) const {
    std::vector<Outcome> outcomes;
    for (size_t i = 0; i < engines_.size(); ++i) {
      outcomes.push_back({"engine", Compute(*engines_[i], request)});
    }
    // The engine rejects tensors in shared memory.
    if (request.tensor().has_shared_memory()) return outcomes;
    for (const auto& backend : backends_) {
      for (const NextPiece& next : {NextPiece(), PiecesOf(-1000, random)}) {
        auto outcome = RunOn(*backend, request, next);
        if (outcome) {
          outcomes.push_back({Describe(*backend) + (next ? " fold" : ""),
                              *std::move(outcome)});
        }
      }
    }
    for (const int64_t piece : {0, 1, 3, 7, -64}) {
      outcomes.push_back(
          {"stream of " + std::to_string(piece),
           Stream(*engines_[0], request, PiecesOf(piece, random))});
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
      schedule.threads == 1 ? run() : arena.execute(run);
      outcomes.push_back(
          {std::string(NameOf(schedule)) + " on " + std::string(set.name),
           std::move(response)});
    }
  }
  return outcomes;
}

}  // namespace topk::testing
