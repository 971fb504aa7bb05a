// Compiles simd/ once for each instruction set, and lists the kernel tables.
// Highway includes this file again for each set.
#include "core/backends/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/backends/cpu/kernels.cc"
#include <hwy/foreach_target.h>  // must come first
#include <hwy/targets.h>

#include "core/backends/cpu/instruction_set.h"
// clang-format off
// These two files come first, because the other files use them.
#include "core/backends/cpu/simd/vectors-inl.h"
#include "core/backends/cpu/simd/sort_few-inl.h"
// clang-format on
#include "core/backends/cpu/simd/bound-inl.h"
#include "core/backends/cpu/simd/columns-inl.h"
#include "core/backends/cpu/simd/rearrange-inl.h"
#include "core/backends/cpu/simd/scan-inl.h"
#include "core/backends/cpu/simd/short_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

template <class Key, bool kFloat>
constexpr Kernels<Key, kFloat> KernelsFor() {
  Kernels<Key, kFloat> kernels = {Scan<Key, kFloat>,
                                  RaiseMaxima<Key, kFloat>,
                                  Kth<Key>,
                                  ScanColumns<Key, kFloat>,
                                  Rank<Key>,
                                  SelectShortRows<Key, kFloat>,
                                  nullptr};
  if constexpr (sizeof(Key) >= 4) {
    kernels.feed_columns = FeedColumns<Key, kFloat>;
  }
  return kernels;
}

constexpr KernelTable kTable = {
    {KernelsFor<uint8_t, false>(), KernelsFor<uint8_t, true>(),
     KernelsFor<uint16_t, false>(), KernelsFor<uint16_t, true>(),
     KernelsFor<uint32_t, false>(), KernelsFor<uint32_t, true>(),
     KernelsFor<uint64_t, false>(), KernelsFor<uint64_t, true>()},
    Transpose,
    UnpackHalves};

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace topk::cpu {

// The best set comes first. The names are visible to users: do not change them.
std::vector<InstructionSet> SupportedInstructionSets() {
  static constexpr InstructionSet kSets[] = {
#if HWY_TARGETS & HWY_AVX3
    {"avx512", HWY_AVX3, &N_AVX3::kTable},
#endif
#if HWY_TARGETS & HWY_AVX2
    {"avx2", HWY_AVX2, &N_AVX2::kTable},
#endif
#if HWY_TARGETS & HWY_SSE4
    {"sse4", HWY_SSE4, &N_SSE4::kTable},
#endif
#if HWY_TARGETS & HWY_NEON
    {"neon", HWY_NEON, &N_NEON::kTable},
#endif
#if HWY_TARGETS & HWY_EMU128
    {"scalar", HWY_EMU128, &N_EMU128::kTable},
#endif
#if HWY_TARGETS & HWY_SCALAR
    {"scalar", HWY_SCALAR, &N_SCALAR::kTable},
#endif
  };
  // The last instruction set is the baseline that every machine must support.
  const int64_t supported =
      hwy::SupportedTargets() | std::rbegin(kSets)->target;
  std::vector<InstructionSet> sets;
  for (const InstructionSet& set : kSets) {
    if ((set.target & supported) != 0) sets.push_back(set);
  }
  return sets;
}

}  // namespace topk::cpu
#endif  // HWY_ONCE
