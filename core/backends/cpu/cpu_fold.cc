#include "core/backends/cpu/cpu_fold.h"

#include <algorithm>
#include <array>

#include "core/backends/cpu/element_fold.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {
namespace {

// Unpacks chunks of sub-byte elements and feeds them to a fold over bytes.
class UnpackingFold final : public Fold {
 public:
  // `make(plan, outputs)` returns the fold over bytes.
  template <class Make>
  UnpackingFold(const Plan& plan, const Outputs& outputs,
                const InstructionSet& set, const Cancellation* cancellation,
                const Make& make)
      : Fold(plan),
        plan_(plan),
        unpacked_plan_(UnpackedPlan(plan)),
        // Any 8-bit kernels work: unpacking does not depend on the key.
        kernels_(set.kernels<uint8_t, false>()),
        type_(InfoOf(plan.dtype)),
        outputs_(outputs),
        cancellation_(cancellation),
        values_(plan),
        fold_(make(unpacked_plan_, values_.WithUnpackedValues(outputs))),
        left_(plan.slices() * plan.n),
        groups_(static_cast<size_t>(type_.bits)) {}

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
  void Take(std::span<const std::byte> chunk) override {
    groups_.Cut(chunk, [this](std::span<const std::byte> groups) {
      FeedElements(groups.data(), static_cast<int64_t>(groups.size()) *
                                      kPackedGroup / type_.bits);
    });
    // The last group of the tensor may have fewer elements.
    const int64_t count = std::min(left_, kPackedGroup);
    const auto rest = groups_.rest();
    if (rest.size() == static_cast<size_t>((count * type_.bits + 7) / 8)) {
      FeedElements(rest.data(), count);
    }
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
  UnitCutter groups_;
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
          return std::make_unique<ElementFold<Key, kFloat>>(
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
