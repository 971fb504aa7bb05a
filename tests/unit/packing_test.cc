// Elements of less than a byte, from any one on and however many.
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
  for (const DTypeInfo& type : DTypes()) {
    if (type.packed()) types.push_back(type);
  }
  return types;
}

// Memory that ends where the data does, so that a sanitizer sees what is
// beyond.
std::vector<std::byte> Exactly(const std::string& data) {
  const auto bytes = std::as_bytes(std::span(data));
  return {bytes.begin(), bytes.end()};
}

// The way of every instruction set, and the one that needs none.
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
      for (const size_t more : {0, 64, 130}) {  // many are taken another way
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

// Of each type what the contract says in words.
TEST(Unpack, HasTheBitOrderOfTheProtocol) {
  struct Row {
    DType type;
    std::vector<uint8_t> data;
    std::vector<uint8_t> elements;
  };
  for (const Row& row :
       {Row{DType::kU1, {0b10110000}, {1, 0, 1, 1, 0, 0, 0, 0}},
        Row{DType::kU2, {0b11100100}, {0, 1, 2, 3}},
        Row{DType::kU3,
            {0b10001000, 0b11000110, 0b11111010},
            {0, 1, 2, 3, 4, 5, 6, 7}},
        Row{DType::kU4, {0x21}, {1, 2}},
        Row{DType::kU6, {0b11000001, 0b00010000, 0b11111100}, {1, 3, 1, 63}},
        Row{DType::kI4, {0xF1}, {1, 15}}, Row{DType::kNF4, {0x7F}, {15, 7}},
        Row{DType::kF4E2M1, {0x8F}, {15, 8}}}) {
    const DTypeInfo& type = InfoOf(row.type);
    std::vector<uint8_t> bytes(row.elements.size());
    Unpack(type, std::as_bytes(std::span(row.data)).data(), 0,
           static_cast<int64_t>(bytes.size()),
           std::as_writable_bytes(std::span(bytes)).data());
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(byte >> (8 - type.bits));
    }
    EXPECT_EQ(bytes, row.elements) << type.name;
  }
}

}  // namespace
}  // namespace topk
