#include "core/backends/cpu/cpu_fold.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/backends/cpu/column_fold.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/row_feed.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/slice_writer.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {
namespace {

// Selects from slices that arrive one after another.
template <class Key, bool kFloat>
class RowFold {
 public:
  RowFold(const Plan& plan, const Outputs& outputs,
          const SortKeyEncoder<Key, kFloat>& encoder, const InstructionSet& set,
          int threads, double task, ArenaPool& arenas,
          const Cancellation* cancellation)
      : plan_(plan),
        arenas_(arenas),
        cancellation_(cancellation),
        sort_pieces_(SortPieces(plan.k, threads, task)),
        selection_(set.kernels<Key, kFloat>().kth, plan.k, SlackFor(plan.k),
                   plan.n, cancellation),
        feed_(set.kernels<Key, kFloat>(), encoder, plan.k),
        writer_(plan, outputs, set.kernels<Key, kFloat>(), sort_pieces_,
                cancellation) {}

  static Size Bytes(const Plan& plan, int threads, double task) {
    return Selection<Key>::Bytes(plan.k, SlackFor(plan.k), plan.n) +
           RowFeed<Key, kFloat>::Bytes(plan.n, plan.k, 1) +
           SliceWriter<Key>::Bytes(plan.k, SortPieces(plan.k, threads, task));
  }

  // Takes the next elements of the tensor.
  void Feed(const std::byte* elements, int64_t count) {
    while (count > 0 && !IsCancelled(cancellation_)) {
      const int64_t index = position_ % plan_.n;
      const int64_t taken = std::min(count, plan_.n - index);
      feed_.FeedNext({elements, taken, index}, selection_);
      position_ += taken;
      elements += taken * static_cast<int64_t>(sizeof(Key));
      count -= taken;
      if (position_ % plan_.n > 0) continue;
      const auto write = [this] {
        writer_.Write(position_ / plan_.n - 1, selection_);
      };
      sort_pieces_ > 1 ? arenas_.Run(write) : write();
      selection_.Reset();
    }
  }

 private:
  const Plan& plan_;
  ArenaPool& arenas_;
  const Cancellation* const cancellation_;
  const int64_t sort_pieces_;
  Selection<Key> selection_;
  RowFeed<Key, kFloat> feed_;
  SliceWriter<Key> writer_;
  int64_t position_ = 0;  // elements taken so far
};

// A fold over elements of whole bytes. Elements is RowFold or ColumnFold.
template <class Key, bool kFloat, template <class, bool> class Elements>
class ByteFold final : public Fold {
 public:
  ByteFold(const Plan& plan, const Outputs& outputs,
           const SortKeyEncoder<Key, kFloat>& encoder,
           const InstructionSet& set, int threads, double task,
           ArenaPool& arenas, const Cancellation* cancellation)
      : outputs_(outputs),
        encoder_(encoder),
        instruction_set_(set.name),
        elements_(plan, outputs_, encoder_, set, threads, task, arenas,
                  cancellation) {}

  void Feed(std::span<const std::byte> chunk) override {
    if (chunk.empty()) return;  // its address may be null
    if (straddling_ > 0) {  // complete the element that the last cut divided
      const size_t missing = std::min(sizeof(Key) - straddling_, chunk.size());
      std::memcpy(element_.data() + straddling_, chunk.data(), missing);
      straddling_ += missing;
      chunk = chunk.subspan(missing);
      if (straddling_ < sizeof(Key)) return;
      elements_.Feed(element_.data(), 1);
      straddling_ = 0;
    }
    const size_t whole = chunk.size() / sizeof(Key);
    elements_.Feed(chunk.data(), static_cast<int64_t>(whole));
    const std::span<const std::byte> rest = chunk.subspan(whole * sizeof(Key));
    std::copy(rest.begin(), rest.end(), element_.begin());
    straddling_ = rest.size();
  }

  // Every slice was written with its last element.
  Execution Finish() override { return {"cpu", "fold", instruction_set_}; }

  // Only Feed() uses the arenas.
  bool OutlivesBackend() const override { return true; }

 private:
  const Outputs outputs_;
  const SortKeyEncoder<Key, kFloat> encoder_;
  const std::string_view instruction_set_;
  Elements<Key, kFloat> elements_;
  std::array<std::byte, sizeof(Key)> element_{};
  size_t straddling_ = 0;  // bytes of element_ that have arrived
};

// Unpacks the pieces for a fold that takes bytes.
class UnpackingFold final : public Fold {
 public:
  // `make` returns the fold of a plan into outputs.
  template <class Make>
  UnpackingFold(const Plan& plan, const Outputs& outputs,
                const InstructionSet& set, const Cancellation* cancellation,
                const Make& make)
      : plan_(plan),
        unpacked_plan_(UnpackedPlan(plan)),
        // Any kernels for bytes: unpacking does not depend on the key.
        kernels_(set.kernels<uint8_t, false>()),
        type_(InfoOf(plan.dtype)),
        outputs_(outputs),
        cancellation_(cancellation),
        values_(plan),
        fold_(make(unpacked_plan_, values_.WithUnpackedValues(outputs))),
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
  // Feeds the group if it is complete. Returns whether it was. The last group
  // of the tensor may have fewer elements.
  bool FeedIfWhole() {
    const int64_t count = std::min(left_, kPackedGroup);
    const auto bytes = static_cast<size_t>((count * type_.bits + 7) / 8);
    if (straddling_ < bytes || count == 0) return false;
    straddling_ = 0;
    FeedElements(group_.data(), count);
    return true;
  }

  void FeedElements(const std::byte* packed, int64_t count) {
    count = std::min(count, left_);  // the last byte may have unused bits
    left_ -= count;
    const auto feed = [&](int64_t begin, int64_t end) {
      const auto size = static_cast<size_t>(end - begin);
      Unpack(kernels_, type_, packed, begin, end - begin, block_.data());
      fold_->Feed(std::span(block_).first(size));
    };
    ForEachBlock(0, count, kBlockElements, cancellation_, feed);
  }

  const Plan& plan_;
  const Plan unpacked_plan_;
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

// Whether slices arrive one after another.
bool AreRows(const Plan& plan) { return plan.inner == 1 || plan.slices() == 0; }

}  // namespace

std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               const InstructionSet& set, int threads,
                               double task, ArenaPool& arenas,
                               const Cancellation* cancellation) {
  const auto make = [&](const Plan& bytes, const Outputs& to) {
    return WithSortKeyEncoder(
        plan,
        [&]<class Key, bool kFloat>(const SortKeyEncoder<Key, kFloat>& encoder)
            -> std::unique_ptr<Fold> {
          if (AreRows(plan)) {
            return std::make_unique<ByteFold<Key, kFloat, RowFold>>(
                bytes, to, encoder, set, threads, task, arenas, cancellation);
          }
          return std::make_unique<ByteFold<Key, kFloat, ColumnFold>>(
              bytes, to, encoder, set, threads, task, arenas, cancellation);
        });
  };
  if (!InfoOf(plan.dtype).packed()) return make(plan, outputs);
  return std::make_unique<UnpackingFold>(plan, outputs, set, cancellation,
                                         make);
}

Size FoldBytes(const Plan& plan, int threads, double task) {
  if (plan.slices() == 0) return PackedValues::Bytes(plan);
  return PackedValues::Bytes(plan) +
         WithSortKeyEncoder(plan, [&]<class Key, bool kFloat>(
                                      const SortKeyEncoder<Key, kFloat>&) {
           const Plan bytes =
               InfoOf(plan.dtype).packed() ? UnpackedPlan(plan) : plan;
           return AreRows(plan)
                      ? RowFold<Key, kFloat>::Bytes(bytes, threads, task)
                      : ColumnFold<Key, kFloat>::Bytes(bytes, threads, task);
         });
}

}  // namespace topk::cpu
