#include "core/backends/cpu/cpu_fold.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/backends/cpu/element_fold.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {
namespace {

// A fold over elements of whole bytes.
template <class Key, bool kFloat>
class ByteFold final : public Fold {
 public:
  ByteFold(const Plan& plan, const Outputs& outputs,
           const SortKeyEncoder<Key, kFloat>& encoder, Resources& resources,
           const Cancellation* cancellation)
      : outputs_(outputs),
        encoder_(encoder),
        instruction_set_(resources.set.name),
        elements_(plan, outputs_, encoder_, resources, cancellation) {}

  void Feed(std::span<const std::byte> chunk) override {
    if (chunk.empty()) return;  // its data() may be null
    if (straddling_ > 0) {      // complete the element split between chunks
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

  // Nothing is left to do: each slice was written when its last element
  // arrived.
  Execution Finish() override { return {"cpu", "fold", instruction_set_}; }

  // Only Feed() uses the resources.
  bool OutlivesBackend() const override { return true; }

 private:
  const Outputs outputs_;
  const SortKeyEncoder<Key, kFloat> encoder_;
  const std::string_view instruction_set_;
  ElementFold<Key, kFloat> elements_;
  std::array<std::byte, sizeof(Key)> element_{};
  size_t straddling_ = 0;  // bytes of element_ that have arrived
};

// Unpacks chunks of sub-byte elements and feeds them to a fold over bytes.
class UnpackingFold final : public Fold {
 public:
  // `make(plan, outputs)` returns the fold over bytes.
  template <class Make>
  UnpackingFold(const Plan& plan, const Outputs& outputs,
                const InstructionSet& set, const Cancellation* cancellation,
                const Make& make)
      : plan_(plan),
        unpacked_plan_(UnpackedPlan(plan)),
        // Any 8-bit kernels work: unpacking does not depend on the key.
        kernels_(set.kernels<uint8_t, false>()),
        type_(InfoOf(plan.dtype)),
        outputs_(outputs),
        cancellation_(cancellation),
        values_(plan),
        fold_(make(unpacked_plan_, values_.WithUnpackedValues(outputs))),
        left_(plan.slices() * plan.n) {}

  void Feed(std::span<const std::byte> piece) override {
    const auto group_bytes = static_cast<size_t>(type_.bits);
    if (straddling_ > 0) {  // complete the group split between chunks
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
  // Feeds the group if it is complete, and returns whether it was. The last
  // group of the tensor may have fewer elements.
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

}  // namespace

std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               Resources& resources,
                               const Cancellation* cancellation) {
  const auto make = [&](const Plan& bytes, const Outputs& to) {
    return WithSortKeyEncoder(
        plan,
        [&]<class Key, bool kFloat>(const SortKeyEncoder<Key, kFloat>& encoder)
            -> std::unique_ptr<Fold> {
          return std::make_unique<ByteFold<Key, kFloat>>(
              bytes, to, encoder, resources, cancellation);
        });
  };
  if (!InfoOf(plan.dtype).packed()) return make(plan, outputs);
  return std::make_unique<UnpackingFold>(plan, outputs, resources.set,
                                         cancellation, make);
}

Size FoldBytes(const Plan& plan, int threads, double task) {
  if (plan.slices() == 0) return PackedValues::Bytes(plan);
  return PackedValues::Bytes(plan) +
         WithSortKeyEncoder(plan, [&]<class Key, bool kFloat>(
                                      const SortKeyEncoder<Key, kFloat>&) {
           return ElementFold<Key, kFloat>::Bytes(
               InfoOf(plan.dtype).packed() ? UnpackedPlan(plan) : plan, threads,
               task);
         });
}

}  // namespace topk::cpu
