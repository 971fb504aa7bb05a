#include "core/backends/cpu/memory.h"

#include <algorithm>

#include "core/backends/cpu/bound.h"
#include "core/backends/cpu/column_feed.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/slice_writer.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {
namespace {

template <class Key, bool kFloat>
class Memory {
 public:
  Memory(const Plan& plan, const Choice& choice)
      : plan_(plan), choice_(choice) {}

  // What the runner of a task takes.
  int64_t OfRunner() const {
    const int64_t k = plan_.k;
    const int64_t n = plan_.n;
    switch (choice_.algorithm) {
      case Algorithm::kNothing:
        return 0;
      case Algorithm::kSort:
        return SliceWriter<Key>::Bytes(plan_, n) + OfUnpacked(n);
      case Algorithm::kColumns: {
        const int64_t columns = choice_.tile * choice_.fold;
        const int64_t state = ColumnState<Key>::Blocks(columns) * 2 * k *
                              ColumnState<Key>::kBlock * kKeyBytes;
        constexpr int64_t kPlace = 16;
        constexpr int64_t kPart = int64_t{2} * 16;  // a vector that grows
        return choice_.pieces * (state + choice_.fold * k * kPart) +
               choice_.tile * kPlace;
      }
      case Algorithm::kScanColumns:
        return choice_.pieces * ColumnSelections<Key, kFloat>::Bytes(
                                    choice_.tile, k, ColumnSlackFor(k), n) +
               SliceWriter<Key>::Bytes(plan_, k) +
               choice_.pieces *
                   OfUnpacked(std::max(choice_.tile, kBlockColumns));
      case Algorithm::kShortRows:
        return OfRow() + OfUnpacked(std::max(n, kUnpackedBytes));
      default:
        return OfRow();
    }
  }

  static int64_t OfFold(const Plan& plan) {
    const int64_t columns = plan.slices() == 0 ? 0 : plan.inner;
    return ColumnSelections<Key, kFloat>::Bytes(columns, plan.k,
                                                FoldSlackFor(plan), plan.n) +
           Bounds<Key, kFloat>::Bytes(plan.n, plan.k) +
           SliceWriter<Key>::Bytes(plan, plan.k);
  }

 private:
  int64_t OfRow() const {
    const int64_t k = plan_.k;
    const int64_t n = plan_.n;
    return choice_.pieces * Selection<Key>::Bytes(k, SlackFor(k), n) +
           Bounds<Key, kFloat>::Bytes(n, k) + SliceWriter<Key>::Bytes(plan_, k);
  }

  int64_t OfUnpacked(int64_t count) const {
    return InfoOf(plan_.dtype).packed() ? count : 0;
  }

  static constexpr auto kKeyBytes = static_cast<int64_t>(sizeof(Key));

  const Plan& plan_;
  const Choice& choice_;
};

}  // namespace

int64_t RunBytes(const Plan& plan, const Choice& choice, int threads) {
  if (choice.algorithm == Algorithm::kNothing) return 0;
  const int64_t units =
      choice.columns() ? plan.outer * choice.tiles(plan) : plan.slices();
  const int64_t runners =
      choice.inline_here ? 1 : std::min<int64_t>(units, threads);
  return PackedValues::Bytes(plan) +
         runners * WithKeyMap(plan, [&]<class Key, bool kFloat>(
                                        const KeyMap<Key, kFloat>&) {
           return Memory<Key, kFloat>(plan, choice).OfRunner();
         });
}

int64_t FoldBytes(const Plan& plan) {
  return PackedValues::Bytes(plan) +
         WithKeyMap(plan,
                    [&]<class Key, bool kFloat>(const KeyMap<Key, kFloat>&) {
                      return Memory<Key, kFloat>::OfFold(plan);
                    });
}

}  // namespace topk::cpu
