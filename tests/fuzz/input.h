// Helpers of the fuzz targets: decisions derived from bytes, and the report of
// a property that does not hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace topk::testing {

/// Ends the process, which libFuzzer and ctest both take for a fault, unless
/// the property holds.
inline void Require(bool holds, std::string_view property) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n",
               static_cast<int>(property.size()), property.data());
  std::abort();
}

/// An input's bytes, taken one after another; zeros when none are left.
/// (<fuzzer/FuzzedDataProvider.h> is Clang's, and GCC builds the replays.)
class Input {
 public:
  Input(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  bool Flag() { return Byte() % 2 == 1; }

  /// A number of 0 .. bound - 1, of as many bytes as it needs.
  /// REQUIRES: 1 <= bound <= 2^56.
  int64_t Below(int64_t bound) {
    uint64_t number = 0;
    for (int64_t reach = 1; reach < bound; reach *= 256) {
      number = number << 8 | Byte();
    }
    return static_cast<int64_t>(number % static_cast<uint64_t>(bound));
  }

  /// The next `count` bytes, or all that are left.
  std::string_view Take(size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  bool empty() const { return rest_.empty(); }

  /// All that is left.
  std::string_view Rest() {
    const std::string_view rest = rest_;
    rest_ = {};
    return rest;
  }

 private:
  std::string_view rest_;
};

}  // namespace topk::testing
