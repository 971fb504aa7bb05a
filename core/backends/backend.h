// The interface of a backend. ARCHITECTURE.md has the recipe for another one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/status.h"
#include "core/plan/cost.h"
#include "core/plan/plan.h"

namespace topk {

/// Where the answer goes: plan.values.bytes and plan.indices.bytes, zeroed by
/// the caller; empty where the plan does not want the output.
struct Outputs {
  std::span<std::byte> values;
  std::span<std::byte> indices;
};

/// The backend, kernel and instruction set that ran. The strings are static.
struct Execution {
  std::string_view backend;
  std::string_view kernel;
  std::string_view instruction_set;
  /// OK, or why there is no answer and the outputs hold anything:
  /// UNAVAILABLE, a device was lost; RESOURCE_EXHAUSTED, its memory is taken.
  /// The last backend of the registry has no such reason.
  Status status = {};
};

/// The state of a device other than the CPU, for operators.
struct DeviceState {
  /// E.g. "NVIDIA H100 80GB HBM3".
  std::string name;
  /// The device memory in use by this process, and its limit, in bytes.
  int64_t memory_bytes = 0;
  int64_t memory_limit = 0;
  /// Whether it failed. It stays so until the process starts again.
  bool lost = false;
};

/// One tensor's selection in progress: start, feed, finish. The answer does not
/// depend on how the tensor was cut. Once cancelled its calls return soon, and
/// the outputs hold anything.
class Fold {
 public:
  virtual ~Fold() = default;

  /// Takes the next bytes of the tensor, in row-major order, cut anywhere.
  /// REQUIRES: all pieces together do not exceed plan.input.bytes.
  virtual void Feed(std::span<const std::byte> piece) = 0;

  /// Writes what is left of the answer. REQUIRES: all of plan.input.bytes fed.
  virtual Execution Finish() = 0;

  /// Whether it may be destroyed after its backend, on any thread.
  virtual bool OutlivesBackend() const { return false; }
};

/// A plan as one backend will run it. Thread-safe. The plan and the backend
/// outlive it.
///
/// A cancellation may be null: never cancelled. Once cancelled a computation
/// skips unstarted work and returns soon, and its outputs
/// hold anything: the caller checks the cancellation afterwards.
class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;

  /// The kernel that Run() uses.
  virtual std::string_view kernel() const = 0;

  /// Typical duration of Run() with all its threads, for the choice between
  /// backends; RunCost() is an upper bound of their CPU time.
  virtual int64_t EstimateNanoseconds() const = 0;

  /// Whether a fold over chunks of the tensor is about as fast as Run() over
  /// the whole, so that concatenating them is not worth a copy.
  virtual bool FoldsWell() const = 0;

  /// The cost of Run(), and of a fold over all chunks together.
  /// REQUIRES: FoldCost(): plan.input.packed.
  virtual Cost RunCost() const = 0;
  virtual Cost FoldCost() const = 0;

  /// CPU time of one call of Fold::Feed() with `bytes` bytes.
  /// REQUIRES: plan.input.packed.
  virtual Size FeedNanoseconds(Size bytes) const = 0;

  /// Computes the whole result from the whole tensor, on this thread alone if
  /// RunCost() is at most kSerialNanoseconds and the backend computes on the
  /// CPU.
  /// REQUIRES: tensor.size() >= plan.input.bytes.
  virtual Execution Run(std::span<const std::byte> tensor,
                        const Outputs& outputs,
                        const Cancellation* cancellation) const = 0;
  /// The same, never cancelled.
  Execution Run(std::span<const std::byte> tensor,
                const Outputs& outputs) const {
    return Run(tensor, outputs, nullptr);
  }

  /// Starts a fold over a tensor that arrives in chunks, or returns why it
  /// cannot, as Execution.status does; the last backend of the registry can.
  /// REQUIRES: plan.input.packed; this, outputs and cancellation outlive the
  /// fold.
  virtual Result<std::unique_ptr<Fold>> StartFold(
      const Outputs& outputs, const Cancellation* cancellation) const = 0;
  /// The same, never cancelled.
  Result<std::unique_ptr<Fold>> StartFold(const Outputs& outputs) const {
    return StartFold(outputs, nullptr);
  }
};

/// An implementation of the selection. Thread-safe. All backends return the
/// same bytes.
class Backend {
 public:
  virtual ~Backend() = default;

  /// A short stable name, e.g. "cpu".
  virtual std::string_view name() const = 0;
  /// The instruction set it uses on this machine.
  virtual std::string_view instruction_set() const = 0;
  /// How many threads it may use, 0 where that has no meaning.
  virtual int threads() const = 0;

  /// Chooses how to run a plan, which outlives the result. UNIMPLEMENTED if
  /// this backend cannot run it; the last backend of the registry runs all.
  virtual Result<std::unique_ptr<const PreparedPlan>> Prepare(
      const Plan& plan) const = 0;

  /// The state of its devices; none where it runs on the CPU.
  virtual std::vector<DeviceState> Devices() const { return {}; }
};

}  // namespace topk
