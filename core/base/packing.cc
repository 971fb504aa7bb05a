// Unpacks eight elements at a time in a 64-bit word. Splits the word into
// halves, the halves into quarters, and the quarters into elements, so that
// each element ends up in its own byte. Packing reverses these steps.
//
// This works at any width, even if elements straddle bytes, and needs no table.
// It takes less time than reading the elements from memory.
#include "core/base/packing.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace topk {
namespace {

// Returns a mask of the lowest `bits` bits of each `lane`-bit lane.
constexpr uint64_t LowBits(int bits, int lane) {
  uint64_t mask = 0;
  for (int at = 0; at < 64; at += lane) {
    mask |= ((uint64_t{1} << bits) - 1) << at;
  }
  return mask;
}

template <int kBits>
struct Packing {
  static constexpr int kShift = 8 - kBits;
  // Whether the first element of a byte is in the highest bits.
  static constexpr bool kHighFirst = kBits == 1;
  // Masks of the lowest 1, 2 and 4 elements in lanes of 16, 32 and 64 bits.
  static constexpr uint64_t kLow8 = LowBits(kBits, 16);
  static constexpr uint64_t kLow16 = LowBits(2 * kBits, 32);
  static constexpr uint64_t kLow32 = LowBits(4 * kBits, 64);

  // Moves each of the eight elements in the low bits of `x` to its own byte.
  static uint64_t Spread(uint64_t x) {
    x = (x & kLow32) | x >> 4 * kBits << 32;
    x = (x & kLow16) | (x << (16 - 2 * kBits) & kLow16 << 16);
    x = (x & kLow8) | (x << (8 - kBits) & kLow8 << 8);
    if constexpr (kHighFirst) x = __builtin_bswap64(x);
    return x << kShift;
  }

  // Loads a group. A kBits-byte memcpy() would cause a store-forwarding stall.
  static uint64_t Load(const std::byte* group) {
    using Low =
        std::conditional_t<(kBits >= 4), uint32_t,
                           std::conditional_t<(kBits >= 2), uint16_t, uint8_t>>;
    Low low;
    std::memcpy(&low, group, sizeof(Low));
    uint64_t x = low;
    for (int at = sizeof(Low); at < kBits; ++at) {
      x |= static_cast<uint64_t>(group[at]) << 8 * at;
    }
    return x;
  }

  // The reverse of Spread().
  static uint64_t Gather(uint64_t x) {
    x = x >> kShift & LowBits(kBits, 8);
    if constexpr (kHighFirst) x = __builtin_bswap64(x);
    x = (x & kLow8) | (x >> (8 - kBits) & kLow8 << kBits);
    x = (x & kLow16) | (x >> (16 - 2 * kBits) & kLow16 << 2 * kBits);
    return (x & kLow32) | x >> 32 << 4 * kBits;
  }

  static void Unpack(const std::byte* packed, int64_t first, int64_t count,
                     std::byte* bytes) {
    const std::byte* group = packed + first / kPackedGroup * kBits;
    // Unpacks elements begin .. end - 1 of `group`. Reads no bytes after them.
    const auto some = [&](int64_t begin, int64_t end) {
      uint64_t x = 0;
      std::memcpy(&x, group, static_cast<size_t>((end * kBits + 7) / 8));
      x = Spread(x) >> 8 * begin;
      std::memcpy(bytes, &x, static_cast<size_t>(end - begin));
    };
    if (const int64_t skip = first % kPackedGroup; skip > 0) {
      const int64_t end = std::min(skip + count, kPackedGroup);
      some(skip, end);
      group += kBits;
      bytes += end - skip;
      count -= end - skip;
    }
    for (; count >= kPackedGroup; count -= kPackedGroup) {
      const uint64_t x = Spread(Load(group));
      std::memcpy(bytes, &x, kPackedGroup);
      group += kBits;
      bytes += kPackedGroup;
    }
    if (count > 0) some(0, count);
  }

  static void Pack(const std::byte* bytes, int64_t count, std::byte* packed) {
    for (; count >= kPackedGroup; count -= kPackedGroup) {
      uint64_t group;
      std::memcpy(&group, bytes, kPackedGroup);
      group = Gather(group);
      std::memcpy(packed, &group, kBits);
      bytes += kPackedGroup;
      packed += kBits;
    }
    if (count == 0) return;
    uint64_t x = 0;
    std::memcpy(&x, bytes, static_cast<size_t>(count));
    x = Gather(x);
    std::memcpy(packed, &x, static_cast<size_t>((count * kBits + 7) / 8));
  }
};

template <class Fn>
void WithPacking(const DTypeInfo& type, const Fn& fn) {
  switch (type.bits) {
    case 1:
      return fn(Packing<1>());
    case 2:
      return fn(Packing<2>());
    case 3:
      return fn(Packing<3>());
    case 4:
      return fn(Packing<4>());
    default:
      return fn(Packing<6>());
  }
}

}  // namespace

void Unpack(const DTypeInfo& type, const std::byte* packed, int64_t first,
            int64_t count, std::byte* bytes) {
  if (count == 0) return;  // memcpy() requires non-null pointers
  WithPacking(
      type, [&](auto packing) { packing.Unpack(packed, first, count, bytes); });
}

void Pack(const DTypeInfo& type, const std::byte* bytes, int64_t count,
          std::byte* packed) {
  WithPacking(type, [&](auto packing) { packing.Pack(bytes, count, packed); });
}

uint64_t ReadBits(const DTypeInfo& type, const std::byte* data, int64_t i) {
  if (type.packed()) {  // move from the highest bits of the byte to the lowest
    std::byte byte;
    Unpack(type, data, i, 1, &byte);
    return static_cast<uint64_t>(byte) >> (8 - type.bits);
  }
  uint64_t bits = 0;
  std::memcpy(&bits, data + i * type.bytes, static_cast<size_t>(type.bytes));
  return bits;
}

int64_t SignExtended(const DTypeInfo& type, uint64_t bits) {
  const uint64_t sign = type.sign >> (8 * type.bytes - type.bits);
  return static_cast<int64_t>((bits ^ sign) - sign);
}

}  // namespace topk
