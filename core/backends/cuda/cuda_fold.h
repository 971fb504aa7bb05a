// Selects on a device from a contiguous tensor that arrives in chunks.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/backends/backend.h"
#include "core/backends/cuda/chunks.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/items.h"

namespace topk::cuda {

/// The memory of a fold on the device. What is null is in host memory.
struct Residence {
  std::unique_ptr<Memory> tensor;
  std::unique_ptr<Memory> values;
  std::unique_ptr<Memory> indices;
};

/// Copies the tensor to the device in chunks, and processes each chunk while
/// the next one is copied. Reads a tensor on the device in place. Keeps the
/// best k items of each unfinished slice on the device, and copies the results
/// of finished slices to the host. Finish() returns the first device error.
class CudaFold final : public Fold {
 public:
  /// `plan` and `architecture` must outlive this object.
  /// `chunk_positions` is the number of axis positions per chunk. A tensor on
  /// the device must be aligned to its elements, and passed to Feed() as a
  /// whole.
  CudaFold(const Plan& plan, const Outputs& outputs, std::unique_ptr<Lane> lane,
           int64_t chunk_positions, std::string_view architecture,
           Residence residence = {})
      : Fold(plan),
        plan_(plan),
        outputs_(outputs),
        rule_(
            RuleOf(InfoOf(plan.dtype), plan.direction == Direction::kLargest)),
        index_bytes_(InfoOf(plan.index_type).bytes),
        position_bytes_(static_cast<size_t>(plan.inner * rule_.bytes)),
        chunk_bytes_(static_cast<size_t>(chunk_positions) * position_bytes_),
        method_(ChooseMethod(rule_.bytes, plan.k)),
        architecture_(architecture),
        lane_(std::move(lane)),
        residence_(std::move(residence)) {}

  Execution Finish() override {
    SwapBuffers();
    Collect(buffers_[current_ ^ 1]);
    return {"cuda", NameOf(method_), architecture_, lane_->status()};
  }

 private:
  // Items on the device, with the shape [slices, count].
  struct Items {
    std::unique_ptr<Memory> memory;
    ItemArrays arrays;
    int64_t count = 0;
  };

  // A chunk on the device, and the outputs of the slices that end in the chunk.
  struct Buffer {
    std::unique_ptr<Memory> copy;  // null if the tensor is on the device
    const std::byte* elements = nullptr;
    size_t filled = 0;
    std::unique_ptr<Memory> values;
    std::unique_ptr<Memory> indices;
    int64_t first_batch = 0;
    int64_t batches = 0;
  };

  void Take(std::span<const std::byte> bytes) override {
    while (!bytes.empty() && Continues()) {
      Buffer& buffer = buffers_[current_];
      const auto part =
          bytes.first(std::min(bytes.size(), chunk_bytes_ - buffer.filled));
      if (residence_.tensor != nullptr) {
        buffer.elements = part.data();
      } else {
        if (buffer.copy == nullptr) {
          buffer.copy =
              Allocate(RoundUpToVectors(static_cast<int64_t>(chunk_bytes_)));
          buffer.elements = buffer.copy->data();
        }
        lane_->Upload(part, *buffer.copy, buffer.filled);
      }
      buffer.filled += part.size();
      bytes = bytes.subspan(part.size());
      if (buffer.filled == chunk_bytes_) SwapBuffers();
    }
  }

  bool Continues() const { return lane_->status().ok(); }

  // Starts processing the current buffer, downloads the outputs of the other
  // buffer, and makes the other buffer current.
  void SwapBuffers() {
    if (Continues()) Compute(buffers_[current_]);
    current_ ^= 1;
    Collect(buffers_[current_]);
  }

  void Compute(Buffer& buffer) {
    const auto positions =
        static_cast<int64_t>(buffer.filled / position_bytes_);
    const auto tiles =
        CutTiles(plan_, next_position_, next_position_ + positions);
    for (const Tile& tile : tiles) {
      if (!tile.Ends(plan_)) continue;
      if (buffer.batches == 0) buffer.first_batch = tile.first_batch;
      buffer.batches += tile.batches;
    }
    if (const int64_t count = buffer.batches * plan_.k * plan_.inner;
        count > 0) {
      if (plan_.wants_values) buffer.values = Allocate(count * rule_.bytes);
      if (plan_.wants_indices) buffer.indices = Allocate(count * index_bytes_);
    }
    size_t at = 0;
    for (const Tile& tile : tiles) {
      if (!Continues()) return;
      Compute(tile, at, buffer);
      at +=
          static_cast<size_t>(tile.batches * tile.positions) * position_bytes_;
    }
    next_position_ += positions;
    buffer.filled = 0;
  }

  // Selects from the tile that begins at byte `at` of `buffer`.
  void Compute(const Tile& tile, size_t at, Buffer& buffer) {
    SelectTask task;
    task.rule = rule_;
    task.elements = buffer.elements + at;
    task.batches = tile.batches;
    task.positions = tile.positions;
    task.inner = plan_.inner;
    task.first_position = tile.first_position;
    if (tile.first_position > 0) {
      task.carried = carried_.arrays;
      task.carried_count = carried_.count;
    }
    const bool ends = tile.Ends(plan_);
    task.k = std::min(plan_.k, task.length());
    Items kept;
    if (ends) {
      task.by_index = plan_.order == Order::kIndex;
      SetOutputs(tile, buffer, task);
    } else {
      kept.memory = Allocate(task.kept_count() * ItemBytes(rule_.bytes));
      if (!Continues()) return;
      kept.arrays =
          ArraysIn(kept.memory->data(), task.kept_count(), rule_.bytes);
      kept.count = task.k;
      task.kept = kept.arrays;
    }
    if (!Continues()) return;
    lane_->Select(task, {buffer.copy.get(), residence_.tensor.get(),
                         carried_.memory.get(), kept.memory.get(),
                         buffer.values.get(), buffer.indices.get()});
    carried_ = std::move(kept);
  }

  void SetOutputs(const Tile& tile, const Buffer& buffer,
                  SelectTask& task) const {
    task.index_bytes = index_bytes_;
    task.index_offset = plan_.index_offset;
    const int64_t before =
        (tile.first_batch - buffer.first_batch) * plan_.k * plan_.inner;
    if (buffer.values != nullptr) {
      task.values = buffer.values->data() + before * rule_.bytes;
    }
    if (buffer.indices != nullptr) {
      task.indices = buffer.indices->data() + before * index_bytes_;
    }
  }

  // Copies the outputs of a buffer to their places.
  void Collect(Buffer& buffer) {
    const int64_t batch = plan_.k * plan_.inner;
    const auto collect = [&](const std::unique_ptr<Memory> from,
                             std::span<std::byte> to, int bytes,
                             const std::unique_ptr<Memory>& resident) {
      if (from == nullptr || !Continues()) return;
      const auto at = static_cast<size_t>(buffer.first_batch * batch * bytes);
      const auto size = static_cast<size_t>(buffer.batches * batch * bytes);
      if (resident != nullptr) {
        lane_->Copy(*from, *resident, at, size);
      } else {
        lane_->Download(*from, to.subspan(at, size));
      }
    };
    collect(std::move(buffer.values), outputs_.values, rule_.bytes,
            residence_.values);
    collect(std::move(buffer.indices), outputs_.indices, index_bytes_,
            residence_.indices);
    buffer.batches = 0;
  }

  std::unique_ptr<Memory> Allocate(int64_t bytes) {
    return lane_->Allocate(static_cast<size_t>(bytes));
  }

  const Plan& plan_;
  const Outputs outputs_;
  const KeyRule rule_;
  const int index_bytes_;
  const size_t position_bytes_;
  const size_t chunk_bytes_;
  const Method method_;
  const std::string_view architecture_;
  // Declared before all Memory objects, because the lane must outlive them.
  const std::unique_ptr<Lane> lane_;
  const Residence residence_;
  std::array<Buffer, 2> buffers_;
  int current_ = 0;
  // The best items found so far in the unfinished batch.
  Items carried_;
  // The number of axis positions processed so far, out of outer * n.
  int64_t next_position_ = 0;
};

}  // namespace topk::cuda
