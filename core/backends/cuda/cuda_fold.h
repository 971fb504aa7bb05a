// Selects on a device from a contiguous tensor that arrives in chunks.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/backends/backend.h"
#include "core/backends/cuda/chunks.h"
#include "core/backends/cuda/device.h"

namespace topk::cuda {

/// What is on the device already, rather than in host memory.
struct Residence {
  bool tensor = false;
  /// The memory for the outputs on the device, or null.
  std::byte* values = nullptr;
  std::byte* indices = nullptr;
};

/// Copies the tensor to the device in chunks, and processes each chunk while
/// the next one is copied. Reads a tensor on the device in place. Keeps the
/// best k items of each unfinished slice on the device, and copies the results
/// of finished slices to the host. Finish() returns the first device error.
class CudaFold final : public Fold {
 public:
  /// `plan` and `architecture` must outlive this object. `chunk_positions` is
  /// from PositionsPerChunk(), or all positions. A tensor on the device must be
  /// aligned to its elements, and passed to Feed() as a whole.
  CudaFold(const Plan& plan, const Outputs& outputs, LanePtr lane,
           int64_t chunk_positions, std::string_view architecture,
           const Residence& residence = {})
      : Fold(plan),
        plan_(plan),
        outputs_(outputs),
        rule_(
            RuleOf(InfoOf(plan.dtype), plan.direction == Direction::kLargest)),
        index_bytes_(InfoOf(plan.index_type).bytes),
        chunk_positions_(chunk_positions),
        architecture_(architecture),
        residence_(residence),
        lane_(std::move(lane)) {}

  Execution Finish() override {
    Collect(current_ ^ 1);
    const bool is_filtered = plan_.k <= MaxFilteredK(rule_.bytes);
    return {"cuda", is_filtered ? "cuda_filter" : "cub_radix_sort",
            architecture_, lane_->status()};
  }

 private:
  // A chunk on the device: whole batches, or some positions of one batch. If it
  // reaches the end of its batches, `values` and `indices` are their outputs.
  struct Buffer {
    Memory copy;  // null if the tensor is on the device
    const std::byte* elements = nullptr;
    size_t filled = 0;
    int64_t first_batch = 0;
    int64_t batches = 0;
    Memory values;
    Memory indices;
  };

  void Take(std::span<const std::byte> bytes) override {
    while (!bytes.empty() && lane_->status().ok()) {
      Buffer& buffer = buffers_[current_];
      const auto size = static_cast<size_t>(BytesOf(PositionsOfChunk()));
      const auto part =
          bytes.first(std::min(bytes.size(), size - buffer.filled));
      if (residence_.tensor) {
        buffer.elements = part.data();
      } else {
        if (buffer.copy == nullptr) {
          buffer.copy = Allocate(RoundUpToVectors(BytesOf(chunk_positions_)));
          buffer.elements = buffer.copy.get();
          lane_->Mark(current_);
        }
        lane_->Upload(part, buffer.copy.get() + buffer.filled, current_);
      }
      buffer.filled += part.size();
      bytes = bytes.subspan(part.size());
      if (buffer.filled < size) continue;
      // Downloads the outputs of the other buffer while this one is processed.
      Compute(buffer);
      current_ ^= 1;
      Collect(current_);
    }
  }

  int64_t PositionsOfChunk() const {
    const int64_t batches =
        chunk_positions_ < plan_.n ? 1 : plan_.outer - batch_;
    return std::min(chunk_positions_, batches * plan_.n - position_);
  }

  int64_t BytesOf(int64_t positions) const {
    return positions * plan_.inner * rule_.bytes;
  }

  // Starts to process a chunk.
  void Compute(Buffer& buffer) {
    SelectTask task;
    task.rule = rule_;
    task.elements = buffer.elements;
    task.positions = std::min(PositionsOfChunk(), plan_.n);
    task.batches = PositionsOfChunk() / task.positions;
    task.inner = plan_.inner;
    task.first_position = position_;
    if (position_ > 0) {
      task.carried = ArraysIn(carried_.get(), carried_count_, rule_.bytes);
      task.carried_count = carried_count_ / task.slices();
    }
    task.k = std::min(plan_.k, task.length());
    const int64_t count = task.kept_count();
    Memory kept;
    if (position_ + task.positions < plan_.n) {
      kept = Allocate(count * ItemBytes(rule_.bytes));
      if (kept == nullptr) return;
      task.kept = ArraysIn(kept.get(), count, rule_.bytes);
      position_ += task.positions;
    } else {
      if (plan_.wants_values) buffer.values = Allocate(count * rule_.bytes);
      if (plan_.wants_indices) buffer.indices = Allocate(count * index_bytes_);
      task.values = buffer.values.get();
      task.indices = buffer.indices.get();
      task.by_index = plan_.order == Order::kIndex;
      task.index_bytes = index_bytes_;
      task.index_offset = plan_.index_offset;
      buffer.first_batch = batch_;
      buffer.batches = task.batches;
      position_ = 0;
      batch_ += task.batches;
    }
    lane_->Select(task);
    lane_->Mark(current_);
    buffer.filled = 0;
    carried_ = std::move(kept);
    carried_count_ = count;
  }

  // Copies the outputs of a buffer to their places.
  void Collect(int number) {
    Buffer& buffer = buffers_[number];
    const auto collect = [&](const Memory from, std::span<std::byte> host,
                             std::byte* device, int bytes) {
      if (from == nullptr) return;
      const int64_t batch = plan_.k * plan_.inner * bytes;
      const auto at = static_cast<size_t>(buffer.first_batch * batch);
      const auto size = static_cast<size_t>(buffer.batches * batch);
      if (device != nullptr) {
        lane_->Copy(from.get(), device + at, size, number);
      } else {
        lane_->Download(from.get(), host.subspan(at, size), number);
      }
    };
    collect(std::move(buffer.values), outputs_.values, residence_.values,
            rule_.bytes);
    collect(std::move(buffer.indices), outputs_.indices, residence_.indices,
            index_bytes_);
  }

  Memory Allocate(int64_t bytes) {
    return lane_->Allocate(static_cast<size_t>(bytes));
  }

  const Plan& plan_;
  const Outputs outputs_;
  const KeyRule rule_;
  const int index_bytes_;
  const int64_t chunk_positions_;
  const std::string_view architecture_;
  const Residence residence_;
  // Declared before all Memory objects, because the lane must outlive them.
  const LanePtr lane_;
  std::array<Buffer, Lane::kSlots> buffers_;
  int current_ = 0;
  // Where the next chunk begins.
  int64_t batch_ = 0;
  int64_t position_ = 0;
  // The best items found so far in the unfinished batch.
  Memory carried_;
  int64_t carried_count_ = 0;
};

}  // namespace topk::cuda
