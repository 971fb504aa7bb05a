// Helpers for fuzz targets: decisions derived from bytes, and assertions.
#pragma once

#include <google/protobuf/stubs/common.h>

#if GOOGLE_PROTOBUF_VERSION >= 4022000
#include <absl/log/globals.h>
#else
#include <google/protobuf/stubs/logging.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace topk::testing {

/// Aborts if the property does not hold. libFuzzer and ctest report an abort.
inline void Require(bool holds, std::string_view property) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n",
               static_cast<int>(property.size()), property.data());
  std::abort();
}

/// Stops protobuf from logging every malformed message.
#if GOOGLE_PROTOBUF_VERSION >= 4022000
class QuietProtobuf {
 public:
  QuietProtobuf() {
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kFatal);
  }
};
#else
using QuietProtobuf = google::protobuf::LogSilencer;
#endif

/// Makes decisions from the bytes of an input. Once all bytes are consumed,
/// returns zeros. (GCC lacks <fuzzer/FuzzedDataProvider.h>.)
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

  /// Returns a number in 0 .. bound - 1, consuming as few bytes as possible.
  /// REQUIRES: 1 <= bound <= 2^56.
  int64_t Below(int64_t bound) {
    uint64_t number = 0;
    for (int64_t reach = 1; reach < bound; reach *= 256) {
      number = number << 8 | Byte();
    }
    return static_cast<int64_t>(number % static_cast<uint64_t>(bound));
  }

  /// Returns all remaining bytes.
  std::string_view Rest() {
    const std::string_view rest = rest_;
    rest_ = {};
    return rest;
  }

 private:
  std::string_view rest_;
};

}  // namespace topk::testing
