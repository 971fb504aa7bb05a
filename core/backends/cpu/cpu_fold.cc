#include "core/backends/cpu/cpu_fold.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/backends/cpu/column_feed.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/row_feed.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/slice_writer.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {
namespace {

template <class Key, bool kFloat>
class TypedFold final : public Fold {
 public:
  TypedFold(const Plan& plan, const Outputs& outputs,
            const SortKeyEncoder<Key, kFloat>& encoder,
            const InstructionSet& set, int64_t sort_pieces, ArenaPool& arenas,
            const Cancellation* cancellation)
      : plan_(plan),
        outputs_(outputs),
        encoder_(encoder),
        kernels_(set.kernels<Key, kFloat>()),
        instruction_set_(set.name),
        arenas_(arenas),
        cancellation_(cancellation),
        // An empty tensor has no columns, whatever its shape.
        selections_(kernels_, encoder_, plan.slices() == 0 ? 0 : plan.inner,
                    plan.k, FoldSlackFor(plan), plan.n, cancellation),
        feed_(kernels_, encoder_, plan.k),
        sort_pieces_(sort_pieces),
        writer_(plan_, outputs_, kernels_, sort_pieces, cancellation) {}

  void Feed(std::span<const std::byte> piece) override {
    if (piece.empty()) return;  // whose address may be null
    if (straddling_ > 0) {  // complete the element that the last cut divided
      const size_t missing = std::min(sizeof(Key) - straddling_, piece.size());
      std::memcpy(element_.data() + straddling_, piece.data(), missing);
      straddling_ += missing;
      piece = piece.subspan(missing);
      if (straddling_ < sizeof(Key)) return;
      FeedElements(element_.data(), 1);
      straddling_ = 0;
    }
    const size_t whole = piece.size() / sizeof(Key);
    FeedElements(piece.data(), static_cast<int64_t>(whole));
    const std::span<const std::byte> rest = piece.subspan(whole * sizeof(Key));
    std::copy(rest.begin(), rest.end(), element_.begin());
    straddling_ = rest.size();
  }

  // Every slice was written when its last element came.
  Execution Finish() override { return {"cpu", "fold", instruction_set_}; }

  // Only Feed() uses the arenas.
  bool OutlivesBackend() const override { return true; }

 private:
  void FeedElements(const std::byte* elements, int64_t count) {
    const int64_t inner = plan_.inner;
    int64_t looked = 0;  // `count` at the last check for cancellation
    while (count > 0) {
      if (looked - count >= kBlockColumns || looked == 0) {
        if (IsCancelled(cancellation_)) return;
        looked = count;
      }
      const int64_t column = position_ % inner;
      const int64_t index = position_ / inner % plan_.n;
      int64_t run;
      if (inner == 1) {
        run = std::min(count, plan_.n - index);
        FeedRun(elements, run, index);
      } else {
        run = std::min(count, inner - column);
        selections_.Feed(elements, column, run, index);
      }
      position_ += run;
      elements += run * static_cast<int64_t>(sizeof(Key));
      count -= run;
      if (position_ % (plan_.n * inner) == 0) {
        if (sort_pieces_ > 1) {
          arenas_.Run([this] { WriteSlices(); });
        } else {
          WriteSlices();
        }
      }
    }
  }

  // The first run of a slice is looked at beforehand if it is long.
  void FeedRun(const std::byte* elements, int64_t run, int64_t index) {
    Selection<Key>& selection = selections_[0];
    if (!selection.bounded()) {
      feed_.Feed({elements, run, index}, std::span(&selection, 1));
    } else {
      feed_.FeedMore({elements, run, index}, selection);
    }
  }

  // Writes the slices of the block [o, :, :] that has just ended.
  void WriteSlices() {
    const int64_t outer = position_ / (plan_.n * plan_.inner) - 1;
    for (int64_t c = 0; c < plan_.inner && !IsCancelled(cancellation_); ++c) {
      writer_.Write(outer * plan_.inner + c, selections_[c]);
    }
    selections_.Reset();
  }

  const Plan& plan_;
  const Outputs outputs_;
  const SortKeyEncoder<Key, kFloat> encoder_;
  const Kernels<Key, kFloat>& kernels_;
  const std::string_view instruction_set_;
  ArenaPool& arenas_;
  const Cancellation* const cancellation_;
  ColumnSelections<Key, kFloat> selections_;
  RowFeed<Key, kFloat> feed_;
  const int64_t sort_pieces_;
  SliceWriter<Key> writer_;
  int64_t position_ = 0;  // elements taken so far
  std::array<std::byte, sizeof(Key)> element_{};
  size_t straddling_ = 0;  // bytes of element_ that have come
};

// Unpacks the pieces for a fold that takes bytes.
class UnpackingFold final : public Fold {
 public:
  // `make` returns the fold of bytes into other outputs.
  template <class Make>
  UnpackingFold(const Plan& plan, const Outputs& outputs,
                const InstructionSet& set, const Cancellation* cancellation,
                const Make& make)
      : plan_(plan),
        // Of those for bytes any: to unpack, all are one.
        kernels_(set.kernels<uint8_t, false>()),
        type_(InfoOf(plan.dtype)),
        outputs_(outputs),
        cancellation_(cancellation),
        values_(plan),
        fold_(make(values_.WithUnpackedValues(outputs))),
        left_(plan.slices() * plan.n) {}

  void Feed(std::span<const std::byte> piece) override {
    const auto group_bytes = static_cast<size_t>(type_.bits);
    if (straddling_ > 0) {  // complete the group that the last cut divided
      const auto missing =
          piece.first(std::min(group_bytes - straddling_, piece.size()));
      std::ranges::copy(missing, group_.begin() + straddling_);
      straddling_ += missing.size();
      piece = piece.subspan(missing.size());
      if (!FeedIfWhole()) return;
    }
    const size_t whole = piece.size() / group_bytes;
    FeedElements(piece.data(), static_cast<int64_t>(whole) * kPackedGroup);
    const auto rest = piece.subspan(whole * group_bytes);
    std::ranges::copy(rest, group_.begin());
    straddling_ = rest.size();
    FeedIfWhole();
  }

  Execution Finish() override {
    Execution execution = fold_->Finish();
    if (plan_.wants_values) {
      ForEachBlock(0, plan_.selected(), kBlockBytes, cancellation_,
                   [this](int64_t begin, int64_t end) {
                     values_.Write(begin, end, outputs_);
                   });
    }
    return execution;
  }

 private:
  // Feeds the group if all of it has come; whether it had. The tensor's last
  // may be of fewer elements, and shorter.
  bool FeedIfWhole() {
    const int64_t count = std::min(left_, kPackedGroup);
    const auto bytes = static_cast<size_t>((count * type_.bits + 7) / 8);
    if (straddling_ < bytes || count == 0) return false;
    straddling_ = 0;
    FeedElements(group_.data(), count);
    return true;
  }

  void FeedElements(const std::byte* packed, int64_t count) {
    count = std::min(count, left_);  // bits of the last byte are nobody's
    left_ -= count;
    const auto feed = [&](int64_t begin, int64_t end) {
      const auto size = static_cast<size_t>(end - begin);
      Unpack(kernels_, type_, packed, begin, end - begin, block_.data());
      fold_->Feed(std::span(block_).first(size));
    };
    ForEachBlock(0, count, kBlockElements, cancellation_, feed);
  }

  const Plan& plan_;
  const Kernels<uint8_t, false>& kernels_;
  const DTypeInfo& type_;
  const Outputs outputs_;
  const Cancellation* const cancellation_;
  const PackedValues values_;
  const std::unique_ptr<Fold> fold_;
  int64_t left_;  // elements yet to arrive
  std::array<std::byte, kPackedGroup> group_{};
  size_t straddling_ = 0;  // bytes of group_ that have arrived
  std::array<std::byte, kBlockElements> block_;
};

}  // namespace

std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               const InstructionSet& set, int64_t sort_pieces,
                               ArenaPool& arenas,
                               const Cancellation* cancellation) {
  const auto make = [&](const Outputs& to) {
    return WithSortKeyEncoder(
        plan,
        [&]<class Key, bool kFloat>(const SortKeyEncoder<Key, kFloat>& encoder)
            -> std::unique_ptr<Fold> {
          return std::make_unique<TypedFold<Key, kFloat>>(
              plan, to, encoder, set, sort_pieces, arenas, cancellation);
        });
  };
  if (!InfoOf(plan.dtype).packed()) return make(outputs);
  return std::make_unique<UnpackingFold>(plan, outputs, set, cancellation,
                                         make);
}

}  // namespace topk::cpu
