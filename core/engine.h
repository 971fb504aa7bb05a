// Validates, plans and runs TopK requests.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backends/registry.h"
#include "core/base/cancellation.h"
#include "core/base/checked.h"
#include "core/plan/cost.h"
#include "core/plan/plan.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The options of an engine.
struct EngineOptions {
  /// The number of threads. 0 means AvailableProcessors().
  int threads = 0;
  Limits limits;
  BackendOptions backends = {};
};

/// A valid request and its cost. No work has been done and no memory has been
/// allocated for the request yet.
struct PreparedRequest {
  std::unique_ptr<const Plan> plan;
  std::string request_id;
  /// References `plan` and the engine's backend.
  std::unique_ptr<const PreparedPlan> prepared;
  /// Set instead of `prepared` if the request must run on a tensor in device
  /// memory, with Engine::RunResident().
  std::unique_ptr<const ResidentPlan> resident;
  Cost cost;
};

/// Computes the responses to requests. Thread-safe. A process needs only one
/// engine.
class Engine {
 public:
  /// REQUIRES: CheckEnvironment(options.backends) is OK.
  explicit Engine(const EngineOptions& options);

  /// Uses these backends instead of the registry's. REQUIRES: the last backend
  /// accepts every plan.
  Engine(const EngineOptions& options,
         std::vector<std::unique_ptr<Backend>> backends);

  /// Validates a request whose tensor has `data_bytes` bytes of data in
  /// `chunks` chunks, and computes its cost. Takes constant time and memory.
  /// Ignores `tensor.data`. Returns the errors of Lower() and CheckPayload(),
  /// and UNIMPLEMENTED if the tensor is in shared memory or CUDA memory.
  ///
  /// If the data is in the memory of a device, `device_uuid` identifies the
  /// device. The result is resident if the device can run the request.
  Result<PreparedRequest> Prepare(const v1::TopKRequest& request,
                                  int64_t data_bytes, size_t chunks,
                                  const std::string& device_uuid = {}) const;

  /// Validates the header of a stream and computes the cost of the stream.
  /// Returns the errors of Lower(), INVALID_ARGUMENT if the header has data,
  /// and RESOURCE_EXHAUSTED if the tensor has too many columns for a stream.
  Result<PreparedRequest> PrepareStream(const v1::TopKRequest& header) const;

  /// Runs a prepared request. Returns CANCELLED within a few milliseconds of
  /// Cancel(). `cancellation` may be null. REQUIRES: the chunks have the total
  /// length that was passed to Prepare().
  Result<v1::TopKResponse> Run(const PreparedRequest& request, Chunks chunks,
                               const Cancellation* cancellation) const;

  /// Runs a resident request on the device that was passed to Prepare(). Output
  /// tensors in device memory have no data in the response. Returns the errors
  /// of Run(), RESOURCE_EXHAUSTED if the device is busy, and UNAVAILABLE if the
  /// device failed.
  Result<v1::TopKResponse> RunResident(const PreparedRequest& request,
                                       const ResidentMemory& memory,
                                       const Cancellation* cancellation) const;

  /// The devices that were found at construction, with their initial state.
  const std::vector<DeviceState>& found_devices() const { return found_; }

  /// Returns UNIMPLEMENTED if this process has no device, and INVALID_ARGUMENT
  /// if no device has this UUID. `field` is the path of a DeviceRegion's field.
  Status CheckDevice(const std::string& uuid, const std::string& field) const;

  /// Opens device memory. Returns the errors of CheckDevice() and
  /// Backend::OpenMemory(). The engine must outlive the result.
  Result<std::unique_ptr<DeviceMemory>> OpenMemory(
      const DeviceRegion& region, const std::string& field) const;

  /// Prepares and runs a request on `data`. Ignores `tensor.data`.
  Result<v1::TopKResponse> Compute(const v1::TopKRequest& request,
                                   std::span<const std::byte> data) const;

  /// Returns the supported operators and the engine's limits. The caller must
  /// add the limits of its transport.
  v1::Capabilities GetCapabilities() const;

  /// Returns the state of all devices other than the CPU.
  std::vector<DeviceState> Devices() const;
  /// The number of requests that fell back to the CPU because a device was
  /// lost, and the number that fell back because a device's memory was full.
  int64_t fallbacks_lost() const { return fallbacks_lost_; }
  int64_t fallbacks_full() const { return fallbacks_full_; }

 private:
  friend class TensorStream;

  /// Chooses a backend for a plan, and prepares the plan.
  PreparedRequest PrepareBest(Plan plan, const std::string& request_id,
                              Arrival arrival) const;
  /// Counts and logs a fallback to the last backend. `why` is the error of the
  /// backend that failed.
  void ReportFallback(const Status& why) const;

  Limits limits_;
  BackendOptions backend_options_;
  mutable std::atomic<int64_t> fallbacks_lost_ = 0;
  mutable std::atomic<int64_t> fallbacks_full_ = 0;
  /// The last backend, the CPU, can run every plan.
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<DeviceState> found_;
};

/// A request whose tensor arrives in chunks. Keeps the outputs and the
/// selections in progress. Buffers at most one outer index of a contiguous
/// tensor (FoldPlan::positions). Stores a strided tensor as a whole.
class TensorStream {
 public:
  /// Starts a stream that Engine::PrepareStream() prepared. `engine` and
  /// `cancellation` must outlive the stream. `cancellation` may be null. After
  /// a cancellation, this function, Feed() and Finish() return CANCELLED.
  static Result<std::unique_ptr<TensorStream>> Start(
      const Engine& engine, PreparedRequest request,
      const Cancellation* cancellation);
  ~TensorStream();

  /// Return upper bounds on the CPU time of Feed() with `bytes` bytes, and of
  /// Finish(). The bounds do not depend on earlier calls.
  Size FeedNanoseconds(Size bytes) const;
  Size FinishNanoseconds() const;

  /// Processes the next bytes. Returns INVALID_ARGUMENT if there are more bytes
  /// than the tensor has.
  Status Feed(std::span<const std::byte> chunk);

  /// Returns the response, or INVALID_ARGUMENT if bytes are missing.
  Result<v1::TopKResponse> Finish();

 private:
  TensorStream(PreparedRequest request, const Cancellation* cancellation)
      : request_(std::move(request)), cancellation_(cancellation) {}

  PreparedRequest request_;
  const Cancellation* const cancellation_;
  v1::TopKResponse response_;
  std::unique_ptr<Fold> fold_;
  int64_t received_ = 0;
  std::chrono::nanoseconds computing_{0};
};

/// Returns OK if `plan` allows an input with `bytes` bytes of data. Otherwise,
/// returns INVALID_ARGUMENT with the actual and the expected length.
Status CheckPayload(const Plan& plan, int64_t bytes);

/// Allocates zeroed output tensors in `response`, and returns them for writing.
/// Does not allocate the data of outputs that have device memory in `memory`.
/// `response` must not be moved before the tensors are written. After a
/// cancellation, the tensors may be too short and must not be used.
Outputs PrepareOutputs(const Plan& plan, v1::TopKResponse& response,
                       const Cancellation* cancellation = nullptr,
                       const ResidentMemory& memory = {});

/// Clears the data of a tensor. Large data is freed asynchronously.
void DiscardData(v1::Tensor& tensor);

/// Clears the data of both outputs.
void DiscardOutputs(v1::TopKResponse& response);

}  // namespace topk
