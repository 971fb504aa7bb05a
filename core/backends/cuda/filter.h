// The kernels of the CUDA backend, as code that also runs on a CPU.
//
// A kernel is a struct with a member function Run(block, job), which all
// threads of a thread block call. `Block` is the device's block
// (select.cu) or that of the tests. It has these members:
//
//   Each(f)       calls f(thread) for each thread, then waits for all threads
//   Any(f)        the same, and returns whether any f(thread) returned true
//   Read(f)       returns f(), the same value in each thread, then waits
//   memory()      the shared memory
//   Local<T>      a variable of each thread: local[thread]
//   AtomicAdd(), AtomicMin(), AtomicMax(), CountOnes(), LowestOne(), Width()
//
// Only the functions passed to Each(), Any() and Read() may access shared
// memory. All other code computes the same in each thread of a block, so all
// threads reach the same barriers.
//
// The elements may change while a kernel runs, because they can be in memory of
// another process. A kernel therefore computes addresses only from numbers that
// it keeps in registers, shared memory or its own device memory.
//
// Limited to C++17, because this file is compiled for host and device.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/backends/cuda/elements.h"

#ifdef __CUDACC__
#define TOPK_DEVICE __device__
#define TOPK_UNROLL _Pragma("unroll")
#else
#define TOPK_DEVICE
#define TOPK_UNROLL
#endif

namespace topk::cuda {

/// The shared memory of a Filter, in candidates.
struct FilterLimits {
  /// The number of candidates that fit.
  uint32_t capacity;
  /// If there are more candidates than `high`, they are reduced to at most
  /// `target`, a power of two.
  uint32_t high;
  uint32_t target;
};

/// Selects the best k elements of each part of each slice, for k of up to
/// MaxFilteredK(). Reads the tensor once, in ascending order of positions, and
/// candidates and outputs again. Writes k outputs for each part, in the order
/// of the parts.
///
/// A thread block collects candidates in shared memory. Whenever there are
/// many, it drops all but about the best k, and from then on ignores elements
/// that rank below them: those with smaller keys, and those with the same key
/// as the k-th, because they have higher positions. Most elements are thus read
/// and compared with one number, and nothing else. In the end, it sorts the
/// candidates.
///
/// Reads whole vectors, also if only a part of the first and the last vector
/// belongs to the slice.
template <class Element, bool kFloat, int kThreadCount>
struct Filter {
  using Bits = BitsOf<Element>;
  using Key = SortKey<Bits>;
  static constexpr int kThreads = kThreadCount;
  /// A thread reads vectors of this many elements.
  static constexpr int kWidth =
      sizeof(Element) == 1 ? 8 : 16 / static_cast<int>(sizeof(Element));
  /// A thread reads this many vectors between two barriers.
  static constexpr int kVectors = 2;
  static constexpr int kTile = kThreads * kWidth * kVectors;
  /// Slices and k for a block of one warp.
  static constexpr int64_t kShortSlice = 1024;
  static constexpr int64_t kShortK = 512 / static_cast<int64_t>(sizeof(Bits));

  Elements<Element> elements;
  int64_t parts;

  /// Returns the limits for k elements.
  static constexpr FilterLimits LimitsOf(int64_t k) {
    uint32_t target = 64;
    while (target < k) target *= 2;
    constexpr uint32_t kFew = 2048 / sizeof(Bits);
    const uint32_t bytes = kThreads == 32   ? 4096
                           : target <= kFew ? 36864
                                            : 43008;
    const uint32_t capacity = bytes / sizeof(Key);
    const uint32_t half = (capacity + target) / 2;
    return {capacity, 4 * target < half ? 4 * target : half, target};
  }
  /// The number of bytes of shared memory: the candidates, Control, and a list.
  static constexpr size_t SharedBytes(int64_t k) {
    const FilterLimits limits = LimitsOf(k);
    return limits.capacity * sizeof(Key) + sizeof(Control) +
           limits.target * sizeof(uint16_t);
  }
  int64_t jobs() const { return elements.task.slices() * parts; }

  template <class Block>
  TOPK_DEVICE void Run(Block& block, int64_t job) const {
    Running<Block>(*this, block, job).Run();
  }

 private:
  static constexpr int kBins = 256;
  static constexpr int kBinsPerSum = 8;
  static constexpr int kSums = kBins / kBinsPerSum;
  static_assert(kSums <= kThreads);

  struct Control {
    // The number of candidates, of which only the first `valid` were stored.
    uint32_t count;
    uint32_t valid;
    // The least and the greatest upper 32 bits of the candidates.
    struct Range {
      uint32_t least;
      uint32_t greatest;
    } range;
    // The number of slots to fill, and of those filled, by Compact().
    uint32_t holes;
    uint32_t filled;
    // The bin of the k-th candidate, its count, and the count of those above.
    struct Found {
      uint32_t bin;
      uint32_t inside;
      uint32_t above;
    } found;
    uint32_t sums[kSums];
    uint32_t bins[kBins];
  };

  // The elements that a thread reads at once. Bit v * kWidth + e of `valid` is
  // set if vector v has an element e.
  struct Chunk {
    static constexpr int kPerWord =
        static_cast<int>(sizeof(Bits) / sizeof(Element));
    static constexpr int kWords = kWidth / kPerWord;
    struct alignas(kWidth * sizeof(Element)) Vector {
      Bits words[kWords];
    };
    Vector vectors[kVectors];
    uint32_t valid;

    // Sets a bit for each valid element whose bits, shifted to the top, pass.
    template <class Passes>
    TOPK_DEVICE uint32_t Where(const Passes& passes) const {
      constexpr int kElementBits = 8 * sizeof(Element);
      constexpr Bits kTop = static_cast<Bits>(~Bits{0})
                            << (kHalf<Bits> - kElementBits);
      const auto top = [&](int at) {
        const Bits word = vectors[at / kWidth].words[at % kWidth / kPerWord];
        const int up = kHalf<Bits> - kElementBits * (at % kPerWord + 1);
        return static_cast<Bits>((word << up) & kTop);
      };
      bool any = false;  // usually stays false, and is faster than a mask
      TOPK_UNROLL
      for (int at = 0; at < kVectors * kWidth; ++at) any |= passes(top(at));
      if (!any) return 0;
      uint32_t mask = 0;
      TOPK_UNROLL
      for (int at = 0; at < kVectors * kWidth; ++at) {
        mask |= static_cast<uint32_t>(passes(top(at))) << at;
      }
      return mask & valid;
    }
  };

  // Which elements become candidates.
  enum class Passing {
    kAll,            // there is no bound yet
    kGreaterFloats,  // those greater than the bound, and NaNs, which rank first
    kGreaterKeys,    // those whose key is greater than the bound
  };

  // The work of a block on one part of a slice.
  template <class Block>
  class Running {
   public:
    TOPK_DEVICE Running(const Filter& filter, Block& block, int64_t job)
        : filter_(filter),
          task_(filter.elements.task),
          block_(block),
          limits_(LimitsOf(task_.k)),
          k_(static_cast<uint32_t>(task_.k)),
          encoder_(task_.rule, task_.rule.largest) {
      const Division at = Divide(job, filter.parts);
      slice_ = at.quotient;
      part_ = at.remainder;
      begin_ = Divide(task_.positions * part_, filter.parts).quotient;
      end_ = Divide(task_.positions * (part_ + 1), filter.parts).quotient;
    }

    TOPK_DEVICE void Run() {
      block_.Each([&](int thread) {
        if (thread == 0) Reset(0);
      });
      Offer();
      Finish();
    }

   private:
    TOPK_DEVICE Key* candidates() const {
      return static_cast<Key*>(block_.memory());
    }
    TOPK_DEVICE Control& control() const {
      return *reinterpret_cast<Control*>(candidates() + limits_.capacity);
    }
    TOPK_DEVICE uint16_t* list() const {
      return reinterpret_cast<uint16_t*>(&control() + 1);
    }
    TOPK_DEVICE void Reset(uint32_t count) {
      Control& c = control();
      c.count = count;
      c.valid = ~uint32_t{0};
      c.range = {~uint32_t{0}, 0};
      c.holes = c.filled = 0;
    }

    // Returns the key of an element whose bits are the low bits.
    TOPK_DEVICE Bits KeyOf(Bits bits) const {
      return encoder_(static_cast<Bits>(
          bits << (kHalf<Bits> - 8 * static_cast<int>(sizeof(Element)))));
    }

    // Adds the elements of the part that pass to the candidates. Reads the next
    // tile of elements while it processes the current one.
    TOPK_DEVICE void Offer() {
      const Element* const row = static_cast<const Element*>(task_.elements) +
                                 slice_ * task_.positions;
      // Begin where vectors are aligned.
      const auto address = reinterpret_cast<uintptr_t>(row + begin_);
      const int64_t before =
          static_cast<int64_t>(address / sizeof(Element) % kWidth);
      typename Block::template Local<Chunk> chunk;
      typename Block::template Local<Chunk> next;
      typename Block::template Local<bool> pending;
      block_.Each([&](int thread) {
        next[thread] = Load(row, begin_ - before, thread);
      });
      for (int64_t first = begin_ - before; first < end_; first += kTile) {
        bool is_first = true;
        Bits bound = 0;
        while (block_.Any([&](int thread) {
          if (is_first) {
            chunk[thread] = next[thread];
            if (first + kTile < end_) {
              next[thread] = Load(row, first + kTile, thread);
            }
          } else if (!pending[thread]) {
            return false;
          }
          uint32_t mask = Test(chunk[thread]);
          const uint32_t count = Block::CountOnes(mask);
          pending[thread] = false;
          if (count == 0) return false;
          uint32_t slot = Block::AtomicAdd(&control().count, count);
          const uint32_t after = slot + count;
          if (after > limits_.capacity) {
            Block::AtomicMin(&control().valid, slot);
            pending[thread] = true;
            return true;
          }
          for (; mask != 0; mask &= mask - 1) {
            const int bit = Block::LowestOne(mask);
            const int64_t at =
                first + PlaceOf(thread, bit / kWidth) + bit % kWidth;
            candidates()[slot++] =
                (static_cast<Key>(KeyOf(row[at])) << kHalf<Bits>) |
                static_cast<Bits>(~static_cast<Bits>(at));
          }
          return after > limits_.high;
        })) {
          bound = Reduce(limits_.target);
          is_first = false;
        }
        // Use the new bound only for later tiles. An element of this tile may
        // have the same key as a candidate and a lower position, so it ranks
        // first.
        if (!is_first) Bound(bound);
      }
    }

    // Returns where a vector of a thread begins in a tile.
    static TOPK_DEVICE int PlaceOf(int thread, int vector) {
      return (vector * kThreads + thread) * kWidth;
    }

    // Reads a thread's part of the tile that begins at `first`.
    TOPK_DEVICE Chunk Load(const Element* row, int64_t first,
                           int thread) const {
      Chunk chunk{};
      const bool is_whole = first >= begin_ && first + kTile <= end_;
      TOPK_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = first + PlaceOf(thread, v);
        const int skip = is_whole ? 0 : Clamp(begin_ - at);
        const int stop = is_whole ? kWidth : Clamp(end_ - at);
        if (skip >= stop) continue;
        chunk.vectors[v] =
            *reinterpret_cast<const typename Chunk::Vector*>(row + at);
        chunk.valid |= ((1U << stop) - (1U << skip)) << (v * kWidth);
      }
      return chunk;
    }

    static TOPK_DEVICE int Clamp(int64_t place) {
      return place <= 0        ? 0
             : place >= kWidth ? kWidth
                               : static_cast<int>(place);
    }

    // Returns which elements of a chunk rank above the bound. Compares floats
    // as floats if possible, which takes a third of the instructions.
    TOPK_DEVICE uint32_t Test(const Chunk& chunk) const {
      if (passing_ == Passing::kAll) return chunk.valid;
      if (kFloat && passing_ == Passing::kGreaterFloats) {
        const Bits negative_infinity = encoder_.sign | encoder_.infinity;
        const auto bound = AsFloat(encoder_.Bits(bound_));
        return chunk.Where([&](Bits top) {
          return !(AsFloat(top) <= bound) | (top > negative_infinity);
        });
      }
      return chunk.Where([&](Bits top) { return encoder_(top) > bound_; });
    }

    static TOPK_DEVICE auto AsFloat(Bits bits) {
      std::conditional_t<sizeof(Bits) == 4, float, double> value;
      memcpy(&value, &bits, sizeof value);
      return value;
    }

    // Lets only elements with a greater key pass.
    TOPK_DEVICE void Bound(Bits key) {
      bound_ = key;
      // No key between those of two numbers is that of a NaN, but the bound
      // need not be the key of an element.
      const bool is_number =
          (encoder_.Bits(key) & ~encoder_.sign) <= encoder_.infinity;
      passing_ = kFloat && task_.rule.largest && is_number
                     ? Passing::kGreaterFloats
                     : Passing::kGreaterKeys;
    }

    TOPK_DEVICE uint32_t ReadCount() const {
      return block_.Read([&] {
        const Control& c = control();
        return c.count < c.valid ? c.count : c.valid;
      });
    }

    // Drops the worst candidates, so that at least k and at most `target`
    // remain. Returns a key. All elements with this key or a lower one that
    // have not been offered yet rank below the best k. REQUIRES: k <= target;
    // there are at least k candidates.
    TOPK_DEVICE Bits Reduce(uint32_t target) {
      constexpr int kKeyBits = static_cast<int>(8 * sizeof(Key));
      const uint32_t count = ReadCount();
      block_.Each([&](int thread) {
        uint32_t least = ~uint32_t{0};
        uint32_t greatest = 0;
        for (uint32_t i = thread; i < count; i += kThreads) {
          const auto top =
              static_cast<uint32_t>(candidates()[i] >> (kKeyBits - 32));
          least = top < least ? top : least;
          greatest = top > greatest ? top : greatest;
        }
        if (least <= greatest) {
          Block::AtomicMin(&control().range.least, least);
          Block::AtomicMax(&control().range.greatest, greatest);
        }
        ClearBins(thread);
      });
      const auto range = block_.Read([&] { return control().range; });
      // The k-th candidate is in [low, low + 2^bits), and `above` candidates
      // are greater than these. Narrow this range by 8 bits at a time.
      Key low = static_cast<Key>(range.least) << (kKeyBits - 32);
      int bits = kKeyBits - 32 + Block::Width(range.greatest - range.least);
      uint32_t above = 0;
      for (;;) {
        const int shift = bits > 8 ? bits - 8 : 0;
        const Key bins = Key{1} << (bits - shift);
        block_.Each([&](int thread) {
          for (uint32_t i = thread; i < count; i += kThreads) {
            // For lower keys, the difference wraps and is too great.
            const Key bin = (candidates()[i] - low) >> shift;
            if (bin < bins) {
              Block::AtomicAdd(&control().bins[static_cast<int>(bin)], 1);
            }
          }
        });
        FindBin(k_ - above);
        const auto found = block_.Read([&] { return control().found; });
        low += static_cast<Key>(found.bin) << shift;
        const uint32_t total = above + found.above + found.inside;
        if (total <= target || shift == 0) {
          Compact(count, low, total);
          return static_cast<Bits>(low >> kHalf<Bits>);
        }
        above += found.above;
        bits = shift;
        block_.Each([&](int thread) { ClearBins(thread); });
      }
    }

    TOPK_DEVICE void ClearBins(int thread) const {
      for (int i = thread; i < kBins; i += kThreads) control().bins[i] = 0;
    }

    // Finds the bin of the `wanted`-th candidate in descending order.
    TOPK_DEVICE void FindBin(uint32_t wanted) {
      block_.Each([&](int thread) {
        if (thread >= kSums) return;
        uint32_t sum = 0;
        TOPK_UNROLL
        for (int i = 0; i < kBinsPerSum; ++i) {
          sum += control().bins[thread * kBinsPerSum + i];
        }
        control().sums[thread] = sum;
      });
      block_.Each([&](int thread) {
        if (thread >= kSums) return;
        Control& c = control();
        uint32_t above = 0;
        TOPK_UNROLL
        for (int i = 0; i < kSums; ++i) above += i > thread ? c.sums[i] : 0;
        if (above >= wanted || above + c.sums[thread] < wanted) return;
        int bin = (thread + 1) * kBinsPerSum - 1;
        while (above + c.bins[bin] < wanted) above += c.bins[bin--];
        c.found = {static_cast<uint32_t>(bin), c.bins[bin], above};
      });
    }

    // Moves the `total` candidates that are at least `low` to the front.
    TOPK_DEVICE void Compact(uint32_t count, Key low, uint32_t total) {
      block_.Each([&](int thread) {
        for (uint32_t i = thread; i < total; i += kThreads) {
          if (candidates()[i] >= low) continue;
          list()[Block::AtomicAdd(&control().holes, 1)] =
              static_cast<uint16_t>(i);
        }
      });
      block_.Each([&](int thread) {
        for (uint32_t i = total + thread; i < count; i += kThreads) {
          const Key key = candidates()[i];
          if (key < low) continue;
          candidates()[list()[Block::AtomicAdd(&control().filled, 1)]] = key;
        }
      });
      block_.Each([&](int thread) {
        if (thread == 0) Reset(total);
      });
    }

    // Sorts the best candidates and writes them.
    TOPK_DEVICE void Finish() {
      const bool by_index = task_.by_index;
      const uint32_t target = by_index ? k_ : limits_.target;
      uint32_t count = ReadCount();
      if (count > target) {
        Reduce(target);
        count = ReadCount();
      }
      uint32_t size = 1;
      while (size < count) size *= 2;
      block_.Each([&](int thread) {
        for (uint32_t i = thread; i < size; i += kThreads) {
          Key& key = candidates()[i];
          if (i >= count) {
            key = 0;
          } else if (by_index) {
            key <<= kHalf<Bits>;
          }
        }
      });
      Sort(size);
      block_.Each([&](int thread) {
        for (uint32_t rank = thread; rank < k_; rank += kThreads) {
          Key key = candidates()[rank];
          if (by_index) key >>= kHalf<Bits>;
          const Bits position = static_cast<Bits>(~static_cast<Bits>(key));
          filter_.elements.Write(slice_, static_cast<int64_t>(position),
                                 part_ * task_.k + rank,
                                 filter_.parts * task_.k);
        }
      });
    }

    // Sorts the first `size` candidates in descending order, with a bitonic
    // network. REQUIRES: `size` is a power of two.
    TOPK_DEVICE void Sort(uint32_t size) {
      for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t stride = run / 2; stride > 0; stride /= 2) {
          block_.Each([&](int thread) {
            for (uint32_t i = thread; i < size / 2; i += kThreads) {
              const uint32_t at = 2 * i - (i & (stride - 1));
              Key& a = candidates()[at];
              Key& b = candidates()[at + stride];
              const Key first = a;
              const Key second = b;
              if ((first < second) == ((at & run) == 0)) {
                a = second;
                b = first;
              }
            }
          });
        }
      }
    }

    const Filter& filter_;
    const SelectTask& task_;
    Block& block_;
    const FilterLimits limits_;
    const uint32_t k_;
    const SortKeyEncoder<Bits, kFloat> encoder_;
    int64_t slice_;
    int64_t part_;
    // The positions of this part.
    int64_t begin_;
    int64_t end_;
    Passing passing_ = Passing::kAll;
    Bits bound_ = 0;
  };
};

/// Transposes a tensor from [batches, positions, inner] to [batches, inner,
/// positions]. Each job is a square of kSide elements.
template <class Element>
struct Transpose {
  static constexpr int kThreads = 256;
  static constexpr int kSide = 32;

  const Element* from;
  Element* to;
  int64_t batches;
  int64_t positions;
  int64_t inner;

  static constexpr size_t SharedBytes() {
    return kSide * (kSide + 1) * sizeof(Element);  // avoids bank conflicts
  }
  TOPK_HOST_DEVICE int64_t across() const {
    return (inner + kSide - 1) / kSide;
  }
  TOPK_HOST_DEVICE int64_t down() const {
    return (positions + kSide - 1) / kSide;
  }
  int64_t jobs() const { return batches * down() * across(); }

  template <class Block>
  TOPK_DEVICE void Run(Block& block, int64_t job) const {
    const Division row = Divide(job, across());
    const Division batch = Divide(row.quotient, down());
    const int64_t position = batch.remainder * kSide;
    const int64_t column = row.remainder * kSide;
    const int64_t base = batch.quotient * positions * inner;
    const auto square = [&](int y, int x) -> Element& {
      return static_cast<Element*>(block.memory())[y * (kSide + 1) + x];
    };
    block.Each([&](int thread) {
      const int x = thread % kSide;
      for (int y = thread / kSide; y < kSide; y += kThreads / kSide) {
        if (position + y < positions && column + x < inner) {
          square(y, x) = from[base + (position + y) * inner + column + x];
        }
      }
    });
    block.Each([&](int thread) {
      const int x = thread % kSide;
      for (int y = thread / kSide; y < kSide; y += kThreads / kSide) {
        if (column + y < inner && position + x < positions) {
          to[base + (column + y) * positions + position + x] = square(x, y);
        }
      }
    });
  }
};

}  // namespace topk::cuda
