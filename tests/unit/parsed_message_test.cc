// Tests when ParseMessage() charges, and that its time is linear.
// fuzz.parsed_message compares it with the generated parser.
#include "server/calls/parsed_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

namespace topk {
namespace {

// Reads a message without a charge.
Status Read(grpc::ByteBuffer& bytes, ParsedInfer& to) {
  return ParseMessage(
      bytes, [](Size) { return Status(); }, to);
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes.push_back(static_cast<char>(value | 0x80));
  }
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// Returns a length-delimited field.
std::string Field(int number, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) + Varint(bytes.size()) +
         bytes;
}

std::string Repeat(const std::string& piece, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += piece;
  return all;
}

std::string Group(int number, const std::string& bytes) {
  const auto tag = static_cast<uint64_t>(number) << 3;
  return Varint(tag | 3) + bytes + Varint(tag | 4);
}

grpc::ByteBuffer CutEvenly(const std::string& bytes, size_t size) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += size) {
    slices.emplace_back(bytes.substr(i, size));
  }
  return {slices.data(), slices.size()};
}

constexpr int kInputs = inference::ModelInferRequest::kInputsFieldNumber;
constexpr int kContents =
    inference::ModelInferRequest::InferInputTensor::kContentsFieldNumber;
constexpr int kRawContents =
    inference::ModelInferRequest::kRawInputContentsFieldNumber;
constexpr int kFloats =
    inference::InferTensorContents::kFp32ContentsFieldNumber;

// Reads a message. Returns its charge.
int64_t ChargeOf(const std::string& bytes, size_t cut, ParsedInfer& to) {
  Size charged;
  const auto charge = [&charged](Size more) {
    charged += more;
    return Status();
  };
  grpc::ByteBuffer buffer = CutEvenly(bytes, cut);
  EXPECT_TRUE(ParseMessage(buffer, charge, to).ok());
  return charged.value();
}

TEST(ParsedMessage, ChargesSmallMessagesBeforeParsing) {
  google::protobuf::Arena arena;
  ParsedInfer raw(arena);
  const std::string bytes = Repeat(Field(kInputs, ""), 300);
  EXPECT_GT(ChargeOf(bytes, 8192, raw), 30'000);
  grpc::ByteBuffer buffer = CutEvenly(bytes, 8192);
  const auto reject = [](Size) { return ResourceExhausted("FULL", "", ""); };
  EXPECT_EQ(ParseMessage(buffer, reject, raw).reason, "FULL");
  EXPECT_EQ(raw.message.inputs_size(), 0);
}

TEST(ParsedMessage, ChargesNothingForUnknownTypedContents) {
  google::protobuf::Arena arena;
  ParsedInfer raw(arena);
  const std::string group = Group(kFloats, Varint(1 << 3) + "1");
  const std::string bytes =
      Field(kInputs, Field(kContents, Repeat(group, 10000)));
  EXPECT_LT(ChargeOf(bytes, 1 << 20, raw), 2000);
  EXPECT_LT(raw.message.SpaceUsedLong(), 2000u);
  // The bytes of unknown fields count towards the limit.
  const std::string more =
      Field(kInputs, Field(kContents, Repeat(group, 20000)));
  grpc::ByteBuffer buffer = CutEvenly(more, 8192);
  EXPECT_EQ(Read(buffer, raw).reason, "TOO_MUCH_TO_PARSE");
}

TEST(ParsedMessage, TakesTimeLinearInSlicesAndContents) {
  const auto time = [](size_t contents) {
    std::string bytes = Repeat(Field(kRawContents, "1"), contents);
    bytes += Field(kRawContents, std::string(30 * contents, 'x'));
    grpc::ByteBuffer buffer = CutEvenly(bytes, 24);
    google::protobuf::Arena arena;
    ParsedInfer raw(arena);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) {
      const std::clock_t begin = std::clock();  // other processes do not count
      EXPECT_TRUE(Read(buffer, raw).ok());
      best = std::min(best, static_cast<double>(std::clock() - begin));
    }
    EXPECT_EQ(raw.content_count, contents + 1);
    return best;
  };
  // Quadratic time would be 256 times as long.
  EXPECT_LT(time(32000), 10 * 16 * time(2000));
}

}  // namespace
}  // namespace topk
