#include "core/backends/cpu/cpu_fold.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/backends/cpu/kernels.h"

namespace topk::cpu {
namespace {

template <class Key, bool kFloat>
class TypedFold final : public Fold {
 public:
  TypedFold(const Plan& plan, const Outputs& outputs,
            const KeyMap<Key, kFloat>& map, std::string_view instruction_set,
            tbb::task_arena& arena)
      : plan_(plan),
        outputs_(outputs),
        map_(map),
        instruction_set_(instruction_set),
        arena_(arena),
        // An empty tensor has none, however many columns its shape names.
        selections_(static_cast<size_t>(plan.slices() == 0 ? 0 : plan.inner),
                    Selection<Key>(plan.k, plan.k, plan.n)) {}

  void Feed(std::span<const std::byte> piece) override {
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

 private:
  void FeedElements(const std::byte* elements, int64_t count) {
    const int64_t inner = plan_.inner;
    while (count > 0) {
      const int64_t column = position_ % inner;
      const int64_t index = position_ / inner % plan_.n;
      int64_t run;
      if (inner == 1) {
        run = std::min(count, plan_.n - index);
        FeedRow(map_, elements, run, 1, index, selections_[0]);
      } else {
        run = std::min(count, inner - column);
        FeedColumns(map_, elements, index,
                    std::span(selections_)
                        .subspan(static_cast<size_t>(column),
                                 static_cast<size_t>(run)));
      }
      position_ += run;
      elements += run * static_cast<int64_t>(sizeof(Key));
      count -= run;
      if (position_ % (plan_.n * inner) == 0) {
        if (SortsInParallel(plan_)) {
          arena_.execute([this] { WriteSlices(); });
        } else {
          WriteSlices();
        }
      }
    }
  }

  // Writes the slices of the block [o, :, :] that has just ended.
  void WriteSlices() {
    const int64_t outer = position_ / (plan_.n * plan_.inner) - 1;
    for (int64_t c = 0; c < plan_.inner; ++c) {
      Selection<Key>& selection = selections_[static_cast<size_t>(c)];
      WriteSlice(plan_, outer * plan_.inner + c, selection, outputs_);
      selection.Reset();
    }
  }

  const Plan& plan_;
  const Outputs outputs_;
  const KeyMap<Key, kFloat> map_;
  const std::string_view instruction_set_;
  tbb::task_arena& arena_;
  std::vector<Selection<Key>> selections_;
  int64_t position_ = 0;  // elements taken so far
  std::array<std::byte, sizeof(Key)> element_{};
  size_t straddling_ = 0;  // bytes of element_ that have come
};

}  // namespace

std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               std::string_view instruction_set,
                               tbb::task_arena& arena) {
  return WithKeyMap(plan,
                    [&]<class Key, bool kFloat>(const KeyMap<Key, kFloat>& map)
                        -> std::unique_ptr<Fold> {
                      return std::make_unique<TypedFold<Key, kFloat>>(
                          plan, outputs, map, instruction_set, arena);
                    });
}

}  // namespace topk::cpu
