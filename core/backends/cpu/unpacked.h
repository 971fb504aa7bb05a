// Provides sub-byte elements to the kernels as whole bytes.
//
// Algorithm: sub-byte elements are unpacked to bytes, one block at a time,
// right before they are read. Other elements are read in place.
//
// Why: kernels need not handle bits, blocks are in L1 when kernels read them,
// and elements that are never read are never unpacked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/backends/backend.h"
#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/scratch.h"
#include "core/base/cancellation.h"
#include "core/base/dtype.h"
#include "core/base/packing.h"
#include "core/plan/plan.h"

namespace topk::cpu {

/// Like Unpack() in core/base/packing.h, but uses `kernels` where possible.
inline void Unpack(const KernelTable& kernels, const DTypeInfo& type,
                   const std::byte* packed, int64_t first, int64_t count,
                   std::byte* bytes) {
  // A pair of 4-bit elements that begins at an even position fills one byte.
  const bool halves = type.bits == 4 && first % 2 == 0;
  const int64_t pairs = halves ? count / 2 : 0;
  if (pairs > 0) kernels.unpack_halves(packed + first / 2, pairs, bytes);
  const int64_t done = 2 * pairs;
  topk::Unpack(type, packed, first + done, count - done, bytes + done);
}

/// The outputs of a plan. Sub-byte values are written as bytes and packed at
/// the end, because different threads may write neighbors that share a byte.
class PackedValues {
 public:
  /// Throws std::bad_alloc.
  PackedValues(const Plan& plan, const Outputs& outputs)
      : type_(InfoOf(plan.dtype)),
        outputs_(outputs),
        bytes_(memory_.Get(type_.packed() && plan.wants_values
                               ? static_cast<size_t>(plan.output_elements())
                               : 0)) {}

  /// Returns the outputs to write to. Each sub-byte value takes a whole byte.
  Outputs unpacked() const {
    return bytes_.empty() ? outputs_ : Outputs{bytes_, outputs_.indices};
  }

  /// Packs the values into the outputs, in parallel if `threads` > 1.
  void Write(int threads, const Cancellation* cancellation) const {
    constexpr int64_t kBlock = kBlockBytes;  // whole groups
    const auto count = static_cast<int64_t>(bytes_.size());
    const int64_t blocks = (count + kBlock - 1) / kBlock;
    const auto pack = [&](int64_t begin, int64_t end) {
      Pack(type_, bytes_.data() + begin, end - begin,
           outputs_.values.data() + begin / kPackedGroup * type_.bits);
    };
    ForEachRange(blocks, threads == 1 ? blocks : 1, cancellation,
                 [&](int64_t begin, int64_t end) {
                   ForEachBlock(begin * kBlock, std::min(end * kBlock, count),
                                kBlock, cancellation, pack);
                 });
  }

 private:
  const DTypeInfo& type_;
  const Outputs outputs_;
  Scratch<std::byte> memory_;
  const std::span<std::byte> bytes_;
};

}  // namespace topk::cpu
