// Generates random requests that cover the whole API.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// Generates random bits from a seed, or from a fuzzer's input: each byte of
/// the input determines one number, and further numbers are random.
class Random {
 public:
  using result_type = uint64_t;
  explicit Random(uint64_t seed) : generator_(seed) {}
  explicit Random(std::string_view input)
      : input_(input), generator_(input.size()) {}

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()() {
    if (input_.empty()) return generator_();
    const auto byte = static_cast<uint8_t>(input_.front());
    input_.remove_prefix(1);
    return byte * uint64_t{0x0101010101010101};
  }

 private:
  std::string_view input_;
  std::mt19937_64 generator_;
};

/// Returns the seed for a random test: TOPK_TEST_SEED if set, else
/// `default_seed`. Prints the seed so that a failure can be reproduced.
uint64_t Seed(uint64_t default_seed);

/// Returns an integer between `low` and `high`, inclusive.
int64_t Pick(Random& random, int64_t low, int64_t high);

/// Returns the element types that a version of an operator accepts. `level` is
/// DirectML's feature level.
std::vector<v1::DataType> AllowedTypes(v1::Dialect dialect, int version,
                                       int level = 0);

/// Returns `count` elements from a random family: random bits, few distinct
/// values, constant, ascending or descending. Floats include NaNs with
/// payloads, infinities and both zeros.
std::string RandomData(Random& random, v1::DataType type, int64_t count);

/// Returns a random valid request. Covers all dialects, versions, types, ranks,
/// axes, orders, output options and DirectML strides.
v1::TopKRequest RandomRequest(Random& random);

}  // namespace topk::testing
