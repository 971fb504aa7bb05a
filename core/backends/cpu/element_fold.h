// Selects from a tensor that arrives in chunks, one axis position after
// another. A position has `inner` elements, one for each adjacent slice.
//
// Algorithm: the elements of a few axis positions are collected in a block, or
// read in place if a chunk has enough of them. A block of all n positions is
// run like a whole tensor. Otherwise, each slice of the block is fed to its own
// selection (slices.h), which copies the candidates before the next block
// overwrites the elements. If the tensor is not contiguous, all its elements
// are collected in one block.
//
// Why: offering elements position by position would miss the cache each time,
// and take 7 times as long as in one message (60 x 262144 f32, k 10).
//
// Costs: the memory of Schedule::buffered elements and, unless these are whole
// slices, a selection for each column. Tests: unit/long_slices_test.cc,
// fuzz.stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/run_tiles.h"
#include "core/backends/cpu/scratch.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {

/// Selects from a tensor that arrives in chunks. Buffers at most
/// Schedule::buffered elements.
template <class Key, bool kFloat>
class ElementFold final : public Fold {
 public:
  /// `plan`, `schedule` and `cancellation` must outlive this object. `set` and
  /// `arenas` must outlive all calls, but may be destroyed before this object.
  ElementFold(const Plan& plan, const Schedule& schedule,
              const InstructionSet& set, ArenaPool& arenas,
              const Outputs& outputs, const Cancellation* cancellation)
      : Fold(plan),
        plan_(plan),
        type_(InfoOf(plan_.dtype)),
        values_(plan_, outputs),
        outputs_(values_.unpacked()),
        arenas_(arenas),
        schedule_(schedule),
        context_{plan_, schedule_, set, outputs_, cancellation, nullptr},
        block_(schedule.buffered),
        slices_(plan_.input.contiguous ? plan_.n * plan_.inner : block_),
        size_(plan_.input.contiguous ? plan_.outer * slices_ : slices_) {
    if (BuffersParts(plan_, schedule_)) runner_.emplace(context_);
  }

  Execution Finish() override {
    if (split_size_ > 0) AddSplit();  // the last group of packed elements
    if (buffered_ > 0 && !IsCancelled(context_.cancellation)) SelectBuffered();
    values_.Write(/*threads=*/1, context_.cancellation);
    return {kName, "fold", context_.set.name};
  }

 private:
  // Adds a chunk in groups of one element, or of eight packed elements. Joins
  // groups that are split across chunks.
  void Take(std::span<const std::byte> chunk) override {
    const auto group =
        static_cast<size_t>(type_.packed() ? type_.bits : type_.bytes);
    while (!chunk.empty()) {
      const bool splits = split_size_ > 0 || chunk.size() < group;
      const auto part =
          chunk.first(splits ? std::min(chunk.size(), group - split_size_)
                             : chunk.size() / group * group);
      chunk = chunk.subspan(part.size());
      if (!splits) {
        AddGroups(part);
        continue;
      }
      std::ranges::copy(part, split_.data() + split_size_);
      split_size_ += part.size();
      if (split_size_ == group) AddSplit();
    }
  }

  void AddSplit() {
    AddGroups(std::span(split_).first(std::exchange(split_size_, 0)));
  }

  // Returns the number of elements that have not arrived yet.
  int64_t Left() const { return size_ - position_ - buffered_; }

  void AddGroups(std::span<const std::byte> groups) {
    // The last byte may have unused bits.
    const int64_t count =
        std::min(static_cast<int64_t>(groups.size()) * 8 / type_.bits, Left());
    if (!type_.packed()) return Add(groups.data(), count);
    ForEachBlock(0, count, kBlockElements, context_.cancellation,
                 [&](int64_t begin, int64_t end) {
                   std::array<std::byte, kBlockElements> bytes;
                   Unpack(context_.set, type_, groups.data(), begin,
                          end - begin, bytes.data());
                   Add(bytes.data(), end - begin);
                 });
  }

  // Adds the next elements of the tensor, which are already unpacked. Selects
  // from a full block, except from the last, which is left to Finish().
  void Add(const std::byte* elements, int64_t count) {
    while (count > 0 && !IsCancelled(context_.cancellation)) {
      const int64_t left = slices_ - position_ % slices_;
      const int64_t size = std::min(block_, left);
      int64_t taken = std::min(count, size - buffered_);
      if (taken == size && plan_.input.contiguous) {
        // Read as many positions as possible in place, without buffering them.
        taken = block_ == slices_
                    ? count / slices_ * slices_
                    : std::min(count / plan_.inner * plan_.inner, left);
        Select(elements, taken);
      } else {
        Buffer(elements, taken);
        if (buffered_ == size && Left() > 0) SelectBuffered();
      }
      elements += taken * static_cast<int64_t>(sizeof(Key));
      count -= taken;
    }
  }

  void Buffer(const std::byte* elements, int64_t count) {
    const auto bytes = static_cast<size_t>(block_) * sizeof(Key);
    std::byte* const to = buffer_.Get(bytes).data();
    const auto copy = [&](int64_t begin, int64_t end) {
      std::memcpy(to + (buffered_ + begin) * static_cast<int64_t>(sizeof(Key)),
                  At<Key>(elements, begin),
                  static_cast<size_t>(end - begin) * sizeof(Key));
    };
    ForEachBlock(0, count, kBlockBytes, context_.cancellation, copy);
    buffered_ += count;
  }

  void SelectBuffered() {
    Select(buffer_.Get(0).data(), std::exchange(buffered_, 0));
  }

  // Selects from the next `count` elements. The elements are either all slices
  // of one or more outer indices, or a part of each slice of one outer index.
  void Select(const std::byte* elements, int64_t count) {
    context_.elements = elements;
    context_.first = position_;
    position_ += count;
    const int64_t outer = context_.first / slices_;
    arenas_.Run(schedule_.threads, [&] {
      if (runner_) {
        const int64_t begin = context_.first / plan_.inner % plan_.n;
        runner_->Feed(outer, begin, begin + count / plan_.inner);
      } else {
        RunTiles<Key, kFloat>(
            context_, outer * plan_.inner,
            plan_.input.contiguous ? count / plan_.n : plan_.slices());
      }
    });
  }

  const Plan& plan_;
  const DTypeInfo& type_;
  const PackedValues values_;
  const Outputs outputs_;
  ArenaPool& arenas_;
  const Schedule& schedule_;
  ExecutionContext context_;
  // The elements of a block, of whole slices, and of the tensor. The whole
  // slices are those of an outer index, or all if the tensor is not contiguous.
  const int64_t block_;
  const int64_t slices_;
  const int64_t size_;
  // Used only if a block is too small for whole slices.
  std::optional<SliceRunner<Key, kFloat>> runner_;
  std::array<std::byte, 8> split_{};  // a group split across chunks
  size_t split_size_ = 0;
  Scratch<std::byte> buffer_;
  int64_t buffered_ = 0;  // elements in the buffer
  int64_t position_ = 0;  // the number of elements before the buffered ones
};

}  // namespace topk::cpu
