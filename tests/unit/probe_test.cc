// ProbeAbove: comparing raw bits gives the same result as comparing keys.
#include "core/backends/cpu/probe.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/base/dtype.h"
#include "tests/unit/encoders.h"

namespace topk::cpu {
namespace {

template <class Key, bool kFloat>
void ExpectSame(const SortKeyEncoder<Key, kFloat>& encoder,
                const std::vector<Key>& bits, const std::vector<Key>& bounds) {
  for (const Key bound : bounds) {
    if (bound == static_cast<Key>(~Key{0})) continue;
    const Probe<Key> probe = ProbeAbove(encoder, bound);
    for (const Key x : bits) {
      const bool in =
          (static_cast<Key>(x ^ probe.flip) > probe.limit) != (x > probe.nan);
      ASSERT_EQ(in, encoder(x) > bound)
          << "bits " << uint64_t{x} << " bound " << uint64_t{bound};
    }
  }
}

// Returns the bits around all values where the order of the bits differs from
// that of the keys, and random bits.
template <class Key>
std::vector<Key> Interesting(const DTypeInfo& type, int random_count) {
  std::vector<Key> all;
  for (const uint64_t place :
       {uint64_t{0}, type.sign, type.infinity, type.sign | type.infinity,
        ~type.infinity, ~(type.sign | type.infinity), ~type.sign,
        type.infinity / 2, ~uint64_t{0}}) {
    for (uint64_t near = 0; near < 8; ++near) {
      all.push_back(static_cast<Key>(place + near - 4));
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < random_count; ++i) {
    all.push_back(static_cast<Key>(random()));
  }
  return all;
}

TEST(Probe, AgreesWithSortKeys) {
  testing::ForEachEncoder(
      []<class Key, bool kFloat>(const SortKeyEncoder<Key, kFloat>& encoder,
                                 const DTypeInfo& type) {
        std::vector<Key> bits = Interesting<Key>(type, 500);
        if (sizeof(Key) <= 2) {  // all patterns
          bits.clear();
          for (uint64_t x = 0; x <= Key(~Key{0}) && x < 65536; ++x) {
            bits.push_back(static_cast<Key>(x));
          }
        }
        ExpectSame(encoder, bits, Interesting<Key>(type, 100));
      });
}

}  // namespace
}  // namespace topk::cpu
