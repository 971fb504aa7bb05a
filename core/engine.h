// The whole story: a request comes in, the answer goes out.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/backends/registry.h"
#include "core/base/cancellation.h"
#include "core/base/status.h"
#include "core/plan/plan.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// What an engine may use.
struct EngineOptions {
  /// 0 = as many as this process may use at once (AvailableProcessors()).
  int threads = 0;
  Limits limits;
  BackendOptions backends = {};
};

/// What became of devices that are not the processor.
struct DeviceReport {
  std::vector<DeviceState> devices;
  /// Requests that the CPU did instead, because a device was lost or had no
  /// memory left.
  int64_t fallbacks_lost = 0;
  int64_t fallbacks_full = 0;
};

/// What a request will take, known before anything is done for it.
struct Cost {
  /// Of the tensor's shape.
  int64_t elements = 0;
  int64_t k = 0;
  /// The answer has k elements of each.
  int64_t slices = 0;
  /// Values and indices, as far as they are wanted.
  int64_t answer_bytes = 0;
  /// At most so much memory beyond the tensor as it was given and the answer:
  /// candidates, what they are sorted in, a tensor put together.
  int64_t working_bytes = 0;
};

/// What a caller may have to do with a request beside its answer.
struct ComputeOptions {
  /// Null = never cancelled. Outlives the computation.
  const Cancellation* cancellation = nullptr;
  /// Unless empty, called once for a right request, before memory is taken for
  /// the answer and before the tensor is read. What is not OK ends the request.
  std::function<Status(const Cost&)> admit;
};

/// Answers requests. Thread-safe; one serves a whole process.
class Engine {
 public:
  /// REQUIRES: CheckEnvironment(options.backends) is OK.
  explicit Engine(const EngineOptions& options);

  /// The same, with these backends instead of those of the registry.
  /// REQUIRES: the last accepts every plan.
  Engine(const EngineOptions& options,
         std::vector<std::unique_ptr<Backend>> backends);

  /// OK, or why no engine can be had in this process: see registry.h.
  static Status CheckEnvironment(const BackendOptions& options = {});

  /// Answers one request. Errors: see Lower() and CheckPayload();
  /// options.admit's; CANCELLED, a few milliseconds after Cancel().
  Result<v1::TopKResponse> Compute(const v1::TopKRequest& request,
                                   const ComputeOptions& options = {}) const;

  /// The same, with the tensor's data beside the request, whose own is ignored.
  Result<v1::TopKResponse> Compute(const v1::TopKRequest& request,
                                   std::span<const std::byte> tensor,
                                   const ComputeOptions& options = {}) const;

  /// The same, with the data in pieces, cut anywhere.
  Result<v1::TopKResponse> Compute(
      const v1::TopKRequest& request,
      std::span<const std::span<const std::byte>> pieces,
      const ComputeOptions& options = {}) const;

  /// What is served here; the limits of the transport are the caller's to add.
  v1::Capabilities GetCapabilities() const;

  /// How the devices are that were found when the engine was made.
  DeviceReport Devices() const;

 private:
  friend class TensorStream;

  /// Returns the backend that is to run the plan.
  const Backend& Choose(const Plan& plan) const;
  /// Returns the one that runs what others could not: the CPU.
  const Backend& last() const { return *backends_.back(); }
  /// Counts a request that the last backend has to do instead of another.
  void CountFallback(Code why) const;

  Limits limits_;
  BackendChoice choice_;
  mutable std::atomic<int64_t> fallbacks_lost_ = 0;
  mutable std::atomic<int64_t> fallbacks_full_ = 0;
  std::vector<std::unique_ptr<Backend>> backends_;
};

/// One request whose tensor arrives in pieces: start, feed, finish. Memory is
/// that of the answer and of the selections under way; a strided tensor alone
/// is collected whole.
class TensorStream {
 public:
  /// Checks the header, a request whose tensor has no source, before any data.
  /// The engine outlives the stream. options.admit is called here, once; if
  /// cancelled this or the next of the calls below returns CANCELLED.
  static Result<TensorStream> Start(const Engine& engine,
                                    const v1::TopKRequest& header,
                                    const ComputeOptions& options = {});
  TensorStream(TensorStream&&) noexcept;
  ~TensorStream();

  /// Whether to take bytes costs little more than to read them.
  bool FeedsFast() const;

  /// Takes the next bytes. INVALID_ARGUMENT as soon as there are too many.
  Status Feed(std::span<const std::byte> piece);

  /// Returns the answer. INVALID_ARGUMENT if bytes are missing.
  Result<v1::TopKResponse> Finish();

 private:
  struct State;
  explicit TensorStream(std::unique_ptr<State> state);
  static Execution RunCollected(const State& state);

  std::unique_ptr<State> state_;
};

}  // namespace topk
