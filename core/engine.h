// The whole story: a request comes in, the answer goes out.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/backends/registry.h"
#include "core/base/cancellation.h"
#include "core/base/checked.h"
#include "core/base/status.h"
#include "core/plan/cost.h"
#include "core/plan/plan.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The resources of an engine.
struct EngineOptions {
  /// 0 = as many as this process may use at once (AvailableProcessors()).
  int threads = 0;
  Limits limits;
  BackendOptions backends = {};
};

/// The state of all devices other than the CPU.
struct DeviceReport {
  std::vector<DeviceState> devices;
  /// Requests that the CPU did instead, because a device was lost or had no
  /// memory left.
  int64_t fallbacks_lost = 0;
  int64_t fallbacks_full = 0;
};

/// A valid request whose cost is known. Nothing has been done for it yet.
struct PreparedRequest {
  std::unique_ptr<const Plan> plan;
  std::string request_id;
  /// How it will run; it refers to the plan and to the engine's backend.
  std::unique_ptr<const PreparedPlan> prepared;
  Cost cost;
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

  /// A tensor's data in pieces, cut anywhere.
  using Pieces = std::span<const std::span<const std::byte>>;

  /// Checks a request whose tensor has `data_bytes` bytes of data in `pieces`
  /// pieces, and tells its cost, in constant time and memory whatever the
  /// request says. Its tensor's source is not looked at. Errors: see Lower()
  /// and CheckPayload().
  Result<PreparedRequest> Prepare(const v1::TopKRequest& request,
                                  int64_t data_bytes, size_t pieces) const;

  /// The same for a tensor that is to arrive in pieces. INVALID_ARGUMENT if the
  /// header has data; RESOURCE_EXHAUSTED if the tensor has more columns than a
  /// stream may keep selections of.
  Result<PreparedRequest> PrepareStream(const v1::TopKRequest& header) const;

  /// Answers a prepared request. CANCELLED, a few milliseconds after Cancel();
  /// a null cancellation is never cancelled. REQUIRES: the pieces have the
  /// length that Prepare() checked.
  Result<v1::TopKResponse> Run(const PreparedRequest& request, Pieces pieces,
                               const Cancellation* cancellation) const;

  /// Prepares and runs one request. Errors: as theirs.
  Result<v1::TopKResponse> Compute(
      const v1::TopKRequest& request,
      const Cancellation* cancellation = nullptr) const;

  /// Computes a request whose tensor's data is `tensor`; the data in the
  /// request itself is ignored.
  Result<v1::TopKResponse> Compute(
      const v1::TopKRequest& request, std::span<const std::byte> tensor,
      const Cancellation* cancellation = nullptr) const;

  /// The same, with the data in pieces.
  Result<v1::TopKResponse> Compute(
      const v1::TopKRequest& request, Pieces pieces,
      const Cancellation* cancellation = nullptr) const;

  /// Returns the supported operators and the engine's limits; the caller adds
  /// the limits of its transport.
  v1::Capabilities GetCapabilities() const;

  /// How the devices are that were found when the engine was made.
  DeviceReport Devices() const;

 private:
  friend class TensorStream;

  /// Prepares a plan on the backend that is to run it: cost and how it runs.
  /// `cost_of` returns the cost of a prepared plan.
  template <class CostOf>
  PreparedRequest PrepareBest(Plan plan, const std::string& request_id,
                              CostOf cost_of) const;
  /// Prepares it on the backend that runs what others could not: the CPU.
  std::unique_ptr<const PreparedPlan> PrepareLast(const Plan& plan) const;
  /// Runs a plan on a tensor in pieces: folded over them, or put together first
  /// where that is faster.
  static Execution RunOn(const PreparedPlan& prepared, const Plan& plan,
                         Pieces pieces, const Outputs& outputs,
                         const Cancellation* cancellation);
  /// Counts a request that the last backend has to do instead of another.
  void CountFallback(Code why) const;

  Limits limits_;
  std::string choice_;
  mutable std::atomic<int64_t> fallbacks_lost_ = 0;
  mutable std::atomic<int64_t> fallbacks_full_ = 0;
  std::vector<std::unique_ptr<Backend>> backends_;
};

/// One request whose tensor arrives in pieces: start, feed, finish. It holds
/// the outputs and the selections in progress; only a strided tensor is
/// collected as a whole.
class TensorStream {
 public:
  /// Starts a stream that Engine::PrepareStream() prepared. The engine outlives
  /// the stream. If cancelled (null = never) this or the next of the calls
  /// below returns CANCELLED.
  static Result<TensorStream> Start(const Engine& engine,
                                    PreparedRequest request,
                                    const Cancellation* cancellation);

  /// Prepares and starts a stream.
  static Result<TensorStream> Start(const Engine& engine,
                                    const v1::TopKRequest& header,
                                    const Cancellation* cancellation = nullptr);
  TensorStream(TensorStream&&) noexcept;
  ~TensorStream();

  /// CPU time of one call of Feed() with `bytes` bytes, and of Finish(). They
  /// grow with what the call may have to do, not with what was fed before.
  Size FeedNanoseconds(Size bytes) const;
  Size FinishNanoseconds() const;

  /// Takes the next bytes. INVALID_ARGUMENT as soon as there are too many.
  Status Feed(std::span<const std::byte> piece);

  /// Returns the answer. INVALID_ARGUMENT if bytes are missing.
  Result<v1::TopKResponse> Finish();

 private:
  struct State;
  explicit TensorStream(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace topk
