// Selects from a tensor that arrives in a stream, one axis position after
// another. A position has `inner` elements, one for each adjacent slice.
//
// Algorithm: the elements of a few axis positions are collected in a block, or
// read in place if a chunk has enough of them. A block of all n positions is
// run like a whole tensor. Otherwise, each slice of the block is fed to its own
// selection (slices.h), which copies the candidates before the next block
// overwrites the elements.
//
// Why: offering elements position by position would miss the cache each time,
// and take 7 times as long as in one message (60 x 262144 f32, k 10).
//
// Costs: the memory of FoldPlan::positions positions and, unless these are all
// n, a selection for each column. Tests: unit/long_slices_test.cc, fuzz.stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/run_tiles.h"
#include "core/backends/cpu/scratch.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {

/// Selects from a tensor that arrives in chunks. Writes a slice when its last
/// element arrives. Buffers at most FoldPlan::positions axis positions of the
/// tensor.
template <class Key, bool kFloat>
class ElementFold final : public Fold {
 public:
  /// `fold` and `cancellation` must outlive this object. `resources` must
  /// outlive all calls, but may be destroyed before this object.
  ElementFold(const FoldPlan& fold, const Outputs& outputs,
              Resources& resources, const Cancellation* cancellation)
      : Fold(fold.plan),
        plan_(fold.plan),
        type_(InfoOf(plan_.dtype)),
        values_(plan_, outputs),
        outputs_(values_.unpacked()),
        resources_(resources),
        rows_(fold.positions),
        schedule_(fold.schedule),
        context_{plan_,    schedule_,    resources.set,
                 outputs_, cancellation, nullptr} {
    if (rows_ < plan_.n) runner_.emplace(context_, plan_.inner);
  }

  Execution Finish() override {
    values_.Write(/*threads=*/1, context_.cancellation);
    return {kName, "fold", context_.set.name};
  }

 private:
  // Adds a chunk in groups of one element, or of eight packed elements. Joins
  // groups that are split across chunks. The last group of packed elements may
  // be incomplete.
  void Take(std::span<const std::byte> chunk) override {
    const auto group =
        static_cast<size_t>(type_.packed() ? type_.bits : type_.bytes);
    while (!chunk.empty()) {
      const auto part =
          split_size_ == 0 && chunk.size() >= group
              ? chunk.first(chunk.size() / group * group)
              : chunk.first(std::min(chunk.size(), group - split_size_));
      chunk = chunk.subspan(part.size());
      if (part.size() >= group) {
        AddGroups(part);
        continue;
      }
      std::ranges::copy(part, split_.data() + split_size_);
      split_size_ += part.size();
      const int64_t bits = std::min(Left(), kPackedGroup) * type_.bits;
      if (split_size_ >= std::min(group, static_cast<size_t>(bits + 7) / 8)) {
        AddGroups(std::span(split_).first(split_size_));
        split_size_ = 0;
      }
    }
  }

  // Returns the number of elements that have not arrived yet.
  int64_t Left() const {
    return plan_.slices() * plan_.n - position_ - buffered_;
  }

  void AddGroups(std::span<const std::byte> groups) {
    // The last byte may have unused bits.
    const int64_t count =
        std::min(static_cast<int64_t>(groups.size()) * 8 / type_.bits, Left());
    if (!type_.packed()) return Add(groups.data(), count);
    ForEachBlock(0, count, kBlockElements, context_.cancellation,
                 [&](int64_t begin, int64_t end) {
                   std::array<std::byte, kBlockElements> bytes;
                   Unpack(*context_.set.table, type_, groups.data(), begin,
                          end - begin, bytes.data());
                   Add(bytes.data(), end - begin);
                 });
  }

  // Adds the next elements of the tensor, which are already unpacked.
  void Add(const std::byte* elements, int64_t count) {
    const int64_t inner = plan_.inner;
    const int64_t whole = plan_.n * inner;
    while (count > 0 && !IsCancelled(context_.cancellation)) {
      const int64_t left = whole - position_ % whole;
      const int64_t size = std::min(rows_ * inner, left);
      int64_t taken = std::min(count, size - buffered_);
      if (taken == size) {
        // Read as many positions as possible in place, without buffering them.
        taken = rows_ == plan_.n ? count / whole * whole
                                 : std::min(count / inner * inner, left);
        Select(elements, taken);
      } else {
        Buffer(elements, taken);
        if (buffered_ == size) {
          buffered_ = 0;
          Select(buffer_.Get(0).data(), size);
        }
      }
      elements += taken * static_cast<int64_t>(sizeof(Key));
      count -= taken;
    }
  }

  void Buffer(const std::byte* elements, int64_t count) {
    const auto bytes = static_cast<size_t>(rows_ * plan_.inner) * sizeof(Key);
    std::byte* const to = buffer_.Get(bytes).data();
    const auto copy = [&](int64_t begin, int64_t end) {
      std::memcpy(to + (buffered_ + begin) * static_cast<int64_t>(sizeof(Key)),
                  At<Key>(elements, begin),
                  static_cast<size_t>(end - begin) * sizeof(Key));
    };
    ForEachBlock(0, count, kBlockBytes, context_.cancellation, copy);
    buffered_ += count;
  }

  // Selects from the next `count` elements. The elements are either all slices
  // of one or more outer indices, or a part of each slice of one outer index.
  void Select(const std::byte* elements, int64_t count) {
    context_.elements = elements;
    context_.first = position_;
    position_ += count;
    const int64_t first = context_.first / plan_.inner;  // axis position
    const int64_t outer = first / plan_.n;
    resources_.Run(schedule_, [&] {
      if (runner_) {
        const int64_t begin = first % plan_.n;
        runner_->Feed(outer, begin, begin + count / plan_.inner);
      } else {
        RunTiles<Key, kFloat>(context_, outer * plan_.inner, count / plan_.n);
      }
    });
  }

  const Plan& plan_;
  const DTypeInfo& type_;
  const PackedValues values_;
  const Outputs outputs_;
  Resources& resources_;
  const int64_t rows_;
  const Schedule& schedule_;
  ExecutionContext context_;
  // Used only if the block is too small for whole slices (rows_ < n).
  std::optional<SliceRunner<Key, kFloat>> runner_;
  std::array<std::byte, 8> split_{};  // a group split across chunks
  size_t split_size_ = 0;
  Scratch<std::byte> buffer_;
  int64_t buffered_ = 0;  // elements in the buffer
  int64_t position_ = 0;  // the number of elements before the buffered ones
};

}  // namespace topk::cpu
