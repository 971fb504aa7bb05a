// Selects on a device from a contiguous tensor that arrives in chunks.
#pragma once

#include <algorithm>
#include <utility>

#include "core/backends/backend.h"
#include "core/backends/cuda/chunks.h"
#include "core/backends/cuda/device.h"

namespace topk::cuda {

/// Copies the tensor to the device in chunks, and processes each chunk while
/// the next one is staged. Reads a tensor on the device in place. Copies the
/// results of a chunk to their places. Finish() returns the first device error.
class CudaFold final : public Fold {
 public:
  /// `plan` must outlive this object. `chunk_batches` is from
  /// BatchesPerChunk(), or all batches. `memory` is what is on the device. A
  /// tensor on the device must be aligned to its elements, and passed to Feed()
  /// as a whole.
  CudaFold(const Plan& plan, const Outputs& outputs, LanePtr lane,
           int64_t chunk_batches, const ResidentMemory& memory = {})
      : Fold(plan),
        plan_(plan),
        outputs_(outputs),
        type_(InfoOf(plan.dtype)),
        index_bytes_(InfoOf(plan.index_type).bytes),
        chunk_batches_(chunk_batches),
        memory_(memory),
        lane_(std::move(lane)) {
    const int64_t count = chunk_batches * plan.inner * plan.k;
    if (plan.wants_values) values_ = Allocate(count * type_.bytes);
    if (plan.wants_indices) indices_ = Allocate(count * index_bytes_);
    if (memory.tensor == nullptr) {
      chunk_ = Allocate(chunk_batches * (plan.input.bytes / plan.outer));
    }
  }

  Execution Finish() override {
    Collect();
    lane_->Finish();
    const bool is_filtered = plan_.k <= MaxFilteredK(type_.bytes);
    return {"cuda", is_filtered ? "cuda_filter" : "cub_radix_sort",
            lane_->architecture(), lane_->status()};
  }

 private:
  void Take(std::span<const std::byte> bytes) override {
    while (!bytes.empty() && lane_->status().ok()) {
      const auto size = static_cast<size_t>(BatchesOfChunk() *
                                            (plan_.input.bytes / plan_.outer));
      const auto part = bytes.first(std::min(bytes.size(), size - filled_));
      const bool is_resident = memory_.tensor != nullptr;
      if (!is_resident) lane_->Upload(part, chunk_ + filled_);
      filled_ += part.size();
      bytes = bytes.subspan(part.size());
      if (filled_ == size) Compute(is_resident ? part.data() : chunk_);
    }
  }

  int64_t BatchesOfChunk() const {
    return std::min(chunk_batches_, plan_.outer - batch_);
  }

  // Starts to process a chunk.
  void Compute(const std::byte* elements) {
    Collect();
    SelectTask task;
    task.rule = RuleOf(type_, plan_.direction == Direction::kLargest);
    task.elements = elements;
    task.batches = BatchesOfChunk();
    task.positions = plan_.n;
    task.inner = plan_.inner;
    task.index_offset = plan_.index_offset;
    task.k = plan_.k;
    task.values = values_;
    task.indices = indices_;
    task.index_bytes = index_bytes_;
    task.by_index = plan_.order == Order::kIndex;
    lane_->Select(task);
    filled_ = 0;
    finished_ = task.batches;
    batch_ += task.batches;
  }

  // Copies the outputs of the last chunk to their places.
  void Collect() {
    if (finished_ == 0) return;
    const auto collect = [&](const std::byte* from, std::span<std::byte> host,
                             const DeviceMemory* device, int bytes) {
      const int64_t batch = plan_.k * plan_.inner * bytes;
      const auto begin = static_cast<size_t>((batch_ - finished_) * batch);
      const auto size = static_cast<size_t>(finished_ * batch);
      if (device != nullptr) {
        lane_->Copy(from, device->bytes().data() + begin, size);
      } else if (!host.empty()) {
        lane_->Download(from, host.subspan(begin, size));
      }
    };
    collect(values_, outputs_.values, memory_.values, type_.bytes);
    collect(indices_, outputs_.indices, memory_.indices, index_bytes_);
    finished_ = 0;
  }

  // Returns memory that may be read in vectors.
  std::byte* Allocate(int64_t bytes) {
    return lane_->Allocate(static_cast<size_t>(RoundUpToVectors(bytes)));
  }

  const Plan& plan_;
  const Outputs outputs_;
  const DTypeInfo& type_;
  const int index_bytes_;
  const int64_t chunk_batches_;
  const ResidentMemory memory_;
  const LanePtr lane_;
  // On the device: a chunk, unless the tensor is read in place, and the outputs
  // of the last chunk.
  std::byte* chunk_ = nullptr;
  std::byte* values_ = nullptr;
  std::byte* indices_ = nullptr;
  size_t filled_ = 0;     // bytes of the chunk
  int64_t batch_ = 0;     // the first of the chunk
  int64_t finished_ = 0;  // batches whose outputs are not copied yet
};

}  // namespace topk::cuda
