// Unpacks any range of elements smaller than a byte.
#include "core/base/packing.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/backends/cpu/instruction_set.h"
#include "core/backends/cpu/unpacked.h"
#include "tests/support/oracle.h"

namespace topk {
namespace {

using testing::DataBytes;
using testing::ReadBits;
using testing::WriteBits;

std::vector<DTypeInfo> PackedTypes() {
  std::vector<DTypeInfo> types;
  for (const DTypeInfo& type : kDTypes) {
    if (type.packed()) types.push_back(type);
  }
  return types;
}

// Returns a copy without spare room, so that sanitizers detect reads past the
// end.
std::vector<std::byte> Exactly(const std::string& data) {
  const auto bytes = std::as_bytes(std::span(data));
  return {bytes.begin(), bytes.end()};
}

// Returns the portable Unpack() and the version of every instruction set.
std::vector<std::function<decltype(Unpack)>> Ways() {
  std::vector<std::function<decltype(Unpack)>> ways = {Unpack};
  for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
    ways.emplace_back([set](const DTypeInfo& type, const std::byte* packed,
                            int64_t first, int64_t count, std::byte* bytes) {
      cpu::Unpack(set.kernels<uint8_t, true>(), type, packed, first, count,
                  bytes);
    });
  }
  return ways;
}

TEST(Unpack, UnpacksAnyRangeToTheHighestBits) {
  std::mt19937_64 random(1);
  const auto ways = Ways();
  ASSERT_EQ(PackedTypes().size(), 8u);
  for (const DTypeInfo& type : PackedTypes()) {
    const auto number = static_cast<int>(type.type);
    for (size_t first = 0; first < 20; ++first) {
      for (const size_t more : {0, 64, 130}) {  // vectors need many elements
        for (size_t few = 0; few < 40; ++few) {
          const size_t count = more + few;
          std::string data(DataBytes(number, first + count), '\0');
          for (char& byte : data) byte = static_cast<char>(random());
          std::vector<std::byte> expected;
          for (size_t i = 0; i < count; ++i) {
            expected.push_back(static_cast<std::byte>(
                ReadBits(number, data, first + i) << (8 - type.bits)));
          }
          for (size_t way = 0; way < ways.size(); ++way) {
            std::vector<std::byte> bytes(count, std::byte{0x55});
            ways[way](type, Exactly(data).data(), static_cast<int64_t>(first),
                      static_cast<int64_t>(count), bytes.data());
            ASSERT_EQ(bytes, expected) << type.name << " " << count << " from "
                                       << first << " way " << way;
          }
        }
      }
    }
  }
}

TEST(Pack, ReversesUnpackAndZerosUnusedBits) {
  std::mt19937_64 random(2);
  for (const DTypeInfo& type : PackedTypes()) {
    const auto number = static_cast<int>(type.type);
    for (size_t count = 0; count < 70; ++count) {
      std::string expected(DataBytes(number, count), '\0');
      std::vector<std::byte> bytes(count);
      for (size_t i = 0; i < count; ++i) {
        const auto bits = static_cast<uint8_t>(random());
        WriteBits(number, i, bits, expected);
        bytes[i] = static_cast<std::byte>(bits << (8 - type.bits));
      }
      std::vector<std::byte> packed(expected.size(), std::byte{0x55});
      Pack(type, bytes.data(), static_cast<int64_t>(count), packed.data());
      ASSERT_EQ(packed, Exactly(expected)) << type.name << " " << count;
    }
  }
}

}  // namespace
}  // namespace topk
