// ReadRaw() agrees with the generated parser on all bytes, except that it drops
// unknown fields. It takes linear time, and charges for what it allocates.
#include "server/calls/raw_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/quiet_protobuf.h"

namespace topk {
namespace {

using Random = std::mt19937_64;

int64_t Below(Random& random, size_t bound) {
  return static_cast<int64_t>(random() % bound);
}

// Splits bytes into slices of random sizes, as gRPC may deliver them.
grpc::ByteBuffer Cut(const std::string& bytes, Random& random) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size();) {
    const size_t size = std::min<size_t>(
        bytes.size() - i, 1 + static_cast<size_t>(Below(random, 9000)));
    slices.emplace_back(bytes.substr(i, size));
    i += size;
  }
  return {slices.data(), slices.size()};
}

// Reads a message as a worker does, without a charge.
template <class To>
Status Read(grpc::ByteBuffer& bytes, To& to) {
  return *ReadRaw(
      bytes, Reader::kWorker, [](Size) { return Status(); }, to);
}

std::string Join(Pieces pieces) {
  std::string data;
  for (const auto& piece : pieces) {
    data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return data;
}

// Reads bytes with both parsers. Returns whether the bytes are valid.
bool ExpectSame(const std::string& bytes, Random& random, int& raw_count) {
  v1::TopKRequest expected;
  const bool valid = expected.ParseFromString(bytes);
  expected.DiscardUnknownFields();
  RawMessage<v1::TopKRequest> raw;
  grpc::ByteBuffer buffer = Cut(bytes, random);
  const Status status = Read(buffer, raw);
  EXPECT_EQ(status.ok(), valid);
  if (!valid || !status.ok()) return false;
  if (!raw.data.empty()) {
    ++raw_count;
    EXPECT_TRUE(raw.message.tensor().data().empty());
    raw.message.mutable_tensor()->set_data(Join(raw.data));
  }
  EXPECT_EQ(raw.message.SerializeAsString(), expected.SerializeAsString());
  return true;
}

v1::TopKRequest Valid(Random& random) {
  v1::TopKRequest request;
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(11);
  request.mutable_onnx()->mutable_k()->set_value(3);
  request.set_request_id(
      std::string(static_cast<size_t>(Below(random, 50)), 'r'));
  request.mutable_tensor()->set_data_type(v1::DATA_TYPE_U8);
  const auto size = static_cast<size_t>(Below(random, 60000));
  request.mutable_tensor()->add_shape(static_cast<int64_t>(size));
  std::string data(size, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  request.mutable_tensor()->set_data(data);
  return request;
}

TEST(RawMessage, RejectsDamagedBytesLikeTheGeneratedParser) {
  testing::QuietProtobuf quiet;
  Random random(2);
  int raw = 0;
  int valid = 0;
  for (int i = 0; i < 900; ++i) {
    std::string bytes = Valid(random).SerializeAsString();
    // Damage the beginning and the end, which have most of the fields.
    const auto place = [&] {
      const size_t end = std::min<size_t>(bytes.size(), 40);
      const auto at = static_cast<size_t>(Below(random, end));
      return random() % 2 == 0 ? at : bytes.size() - 1 - at;
    };
    switch (Below(random, 4)) {
      case 0:
        bytes.resize(bytes.size() - place() % 70);
        break;
      case 1:
        bytes.insert(place(), 1, static_cast<char>(random()));
        break;
      case 2:
        bytes.erase(place(), 1);
        break;
      default:
        for (int64_t n = Below(random, 3); n >= 0; --n) {
          bytes[place()] ^= static_cast<char>(1 << Below(random, 8));
        }
    }
    valid += ExpectSame(bytes, random, raw);
    if (::testing::Test::HasFailure()) FAIL() << "round " << i;
  }
  EXPECT_GT(valid, 30);
  EXPECT_LT(valid, 850);
  EXPECT_GT(raw, 15);
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

TEST(RawMessage, ReadsUnusualValidMessages) {
  testing::QuietProtobuf quiet;
  Random random(3);
  constexpr int kTensor = v1::TopKRequest::kTensorFieldNumber;
  constexpr int kData = v1::Tensor::kDataFieldNumber;
  constexpr int kShared = v1::Tensor::kSharedMemoryFieldNumber;
  const std::string data = Field(kData, std::string(20000, 'd'));
  const std::string other = Field(kData, std::string(30000, 'o'));
  const std::string shared = Field(kShared, "");
  const std::string unknown = Field(999, std::string(100, 'u'));
  const std::string group =
      Varint(998 << 3 | 3) + unknown + Varint(998 << 3 | 4);
  const std::string varint = Varint(kData << 3) + Varint(5);
  int raw = 0;
  const auto same = [&](const std::string& bytes) {
    return ExpectSame(bytes, random, raw);
  };
  EXPECT_TRUE(same(Field(kTensor, data)));
  EXPECT_EQ(raw, 1);
  EXPECT_TRUE(same(unknown + Field(kTensor, unknown + data + group) + group));
  EXPECT_TRUE(same(Field(kTensor, varint + data)));
  // Repeated fields: the last data wins, and tensors are merged.
  EXPECT_TRUE(same(Field(kTensor, data + other)));
  EXPECT_TRUE(same(Field(kTensor, data) + Field(kTensor, other)));
  EXPECT_TRUE(same(Field(kTensor, data) + Field(kTensor, "")));
  // A source replaces the other one.
  EXPECT_TRUE(same(Field(kTensor, data + shared)));
  EXPECT_TRUE(same(Field(kTensor, shared + data)));
  EXPECT_TRUE(same(Field(kTensor, data) + Field(kTensor, shared)));
  EXPECT_TRUE(same(Field(kTensor, Field(kData, "")) + Field(999, data)));
  // Wrong lengths.
  EXPECT_FALSE(same(Field(kTensor, data).substr(0, 19000)));
  EXPECT_FALSE(same(Varint(kTensor << 3 | 2) + Varint(20003) + data));
  EXPECT_FALSE(same(Varint(kTensor << 3 | 2) + Varint(19000) + data));
  EXPECT_FALSE(same(Field(kTensor, Varint(kData << 3 | 2) + Varint(1 << 30) +
                                       std::string(20000, 'd'))));
  EXPECT_FALSE(same(Field(kTensor, data) + Varint(0)));
  EXPECT_FALSE(same(Field(kTensor, data) + Varint(998 << 3 | 4)));
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

constexpr int kTensor = v1::TopKRequest::kTensorFieldNumber;
constexpr int kOnnx = v1::TopKRequest::kOnnxFieldNumber;
constexpr int kOnnxK = v1::OnnxTopK::kKFieldNumber;
constexpr int kKTensor = v1::KInput::kTensorFieldNumber;
constexpr int kShape = v1::Tensor::kShapeFieldNumber;
constexpr int kInputs = inference::ModelInferRequest::kInputsFieldNumber;
constexpr int kContents =
    inference::ModelInferRequest::InferInputTensor::kContentsFieldNumber;
constexpr int kRawContents =
    inference::ModelInferRequest::kRawInputContentsFieldNumber;
constexpr int kBools = inference::InferTensorContents::kBoolContentsFieldNumber;
constexpr int kInt64s =
    inference::InferTensorContents::kInt64ContentsFieldNumber;
constexpr int kFloats =
    inference::InferTensorContents::kFp32ContentsFieldNumber;
constexpr int kTexts =
    inference::InferTensorContents::kBytesContentsFieldNumber;

TEST(RawMessage, DropsUnknownFieldsAtAnyDepth) {
  testing::QuietProtobuf quiet;
  Random random(6);
  const std::string unknown =
      Field(999, "u") + Varint(999 << 3) + Varint(5) +
      Group(999, Field(1, "g") + Group(2, Varint(3 << 3 | 5) + "1234"));
  // A repeated number may be packed or not. Other wire types are unknown.
  const std::string shape = Varint(kShape << 3) + Varint(2) +
                            Field(kShape, Varint(3) + Varint(300)) +
                            Varint(kShape << 3 | 5) + "1234" +
                            Group(kShape, Varint(kShape << 3) + Varint(1));
  const std::string tensor = unknown + shape + unknown + Group(4, "");
  const std::string request =
      unknown + Field(kTensor, tensor) + Varint(kTensor << 3) + Varint(1) +
      Group(kTensor, tensor) +
      Field(kOnnx, unknown + Field(kOnnxK, unknown + Field(kKTensor, tensor))) +
      Field(v1::TopKRequest::kIndexOffsetFieldNumber, "1");
  int raw = 0;
  EXPECT_TRUE(ExpectSame(request, random, raw));
  EXPECT_FALSE(ExpectSame(request + Varint(999 << 3 | 6), random, raw));
  EXPECT_FALSE(ExpectSame(request + Varint(999 << 3 | 3), random, raw));
  EXPECT_FALSE(ExpectSame(request + Group(999, Varint(0)), random, raw));
  std::string deep;
  for (int depth = 1; depth < 120; ++depth) {
    deep = Group(999, deep);
    const bool expected = depth <= 100;
    EXPECT_EQ(ExpectSame(deep, random, raw), expected) << depth;
    EXPECT_EQ(ExpectSame(Field(kTensor, deep), random, raw), depth <= 99);
  }
}

// Reads a message. Returns its charge.
template <class To>
int64_t ChargeOf(const std::string& bytes, size_t cut, To& to) {
  Size charged;
  const auto charge = [&charged](Size more) {
    charged += more;
    return Status();
  };
  grpc::ByteBuffer buffer = CutEvenly(bytes, cut);
  const auto status = ReadRaw(buffer, Reader::kWorker, charge, to);
  EXPECT_TRUE(status.has_value());
  return charged.value();
}

void ExpectCharged(const std::string& bytes, size_t cut) {
  google::protobuf::Arena arena;
  RawInfer infer(arena);
  const auto before = static_cast<int64_t>(arena.SpaceAllocated());
  int64_t charged = ChargeOf(bytes, cut, infer);
  // The last block of an arena is not full.
  const auto arena_bytes =
      std::max<int64_t>(static_cast<int64_t>(arena.SpaceAllocated()) - before,
                        static_cast<int64_t>(infer.message.SpaceUsedLong()) -
                            static_cast<int64_t>(sizeof(infer.message)));
  constexpr int64_t kBlock = int64_t{8} << 10;
  EXPECT_GE(charged + kUnchargedBytes + kBlock, arena_bytes);

  RawMessage<v1::TopKRequest> request;
  charged = ChargeOf(bytes, cut, request);
  EXPECT_GE(charged + kUnchargedBytes,
            static_cast<int64_t>(
                request.message.SpaceUsedLong() - sizeof(request.message) +
                request.data.capacity() * sizeof(request.data.front())));
}

TEST(RawMessage, ChargesForWhatItBuilds) {
  testing::QuietProtobuf quiet;
  constexpr size_t kBytes = 60000;
  const auto fill = [](const std::string& piece) {
    return Repeat(piece, kBytes / piece.size());
  };
  const auto contents = [](const std::string& bytes) {
    return Field(kInputs, Field(kContents, bytes));
  };
  const std::string messages[] = {
      fill(Field(kInputs, "")),
      fill(contents("")),
      fill(contents(Field(kBools, "1"))),
      fill(contents(Field(kTexts, ""))),
      contents(fill(Field(kTexts, ""))),
      contents(fill(Field(kTexts, std::string(16, 't')))),
      contents(Field(kBools, Repeat("1", 1 << 20))),
      contents(Field(kInt64s, Repeat("1", 1 << 20))),
      contents(fill(Field(kInt64s, "1"))),
      contents(fill(Varint(kInt64s << 3) + "1")),
      contents(fill(Varint(kFloats << 3 | 5) + "1234")),
      contents(fill(Group(kInt64s, Varint(1 << 3) + "1"))),
      fill(Field(kInputs, Field(1, "") + Field(2, "") + Field(3, "1"))),
      fill(Field(4, "")),
      fill(Field(6, Field(2, ""))),
      fill(Field(6, Field(2, Field(2, Field(3, "text"))))),
      fill(Field(7, "")),
      fill(Field(7, "12345678")),
      Field(kTensor, fill(Field(kShape, "1"))),
      Field(kTensor, fill(Varint(kShape << 3) + "1")),
      fill(Field(kTensor, Field(kShape, "1"))),
      fill(Field(kOnnx, Field(kOnnxK, Field(kKTensor, Field(4, "data"))))),
      Field(7, std::string(kBytes, 'r')),
      fill(Field(7, std::string(200, 'r')) + Field(7, std::string(500, 'r'))),
      fill(Field(999, "")),
      fill(Group(999, "")),
      fill(Varint(999 << 3) + "1"),
  };
  for (const std::string& bytes : messages) {
    SCOPED_TRACE(std::to_string(&bytes - messages));
    ExpectCharged(bytes, 8192);
    ExpectCharged(bytes, 24);
    ExpectCharged(bytes.substr(0, 4000), 8192);
  }
  std::string keys;
  for (int i = 0; i < 5000; ++i) {
    keys += Field(4, Field(1, std::to_string(i)) + Field(2, ""));
  }
  ExpectCharged(keys, 8192);
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = messages[random() % std::size(messages)];
    bytes.resize(std::min<size_t>(bytes.size(), 20000));
    for (int n = 0; n < 20; ++n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    ExpectCharged(bytes, 1 + random() % 9000);
  }
}

TEST(RawMessage, ChargesSmallMessagesBeforeParsing) {
  google::protobuf::Arena arena;
  RawInfer raw(arena);
  const std::string bytes = Repeat(Field(kInputs, ""), 1000);
  EXPECT_GT(ChargeOf(bytes, 8192, raw), 100'000);
  grpc::ByteBuffer buffer = CutEvenly(bytes, 8192);
  const auto reject = [](Size) { return ResourceExhausted("FULL", "", ""); };
  for (const Reader reader : {Reader::kPoller, Reader::kWorker}) {
    EXPECT_EQ(ReadRaw(buffer, reader, reject, raw)->reason, "FULL");
    EXPECT_EQ(raw.message.inputs_size(), 0);
  }
}

TEST(RawMessage, ChargesNothingForUnknownTypedContents) {
  google::protobuf::Arena arena;
  RawInfer raw(arena);
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

TEST(RawMessage, TakesTimeLinearInSlicesAndContents) {
  const auto seconds = [](size_t contents) {
    std::string bytes = Repeat(Field(kRawContents, "1"), contents);
    bytes += Field(kRawContents, std::string(30 * contents, 'x'));
    grpc::ByteBuffer buffer = CutEvenly(bytes, 24);
    google::protobuf::Arena arena;
    RawInfer raw(arena);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_TRUE(Read(buffer, raw).ok());
      const std::chrono::duration<double> took =
          std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count());
    }
    EXPECT_EQ(raw.content_count, contents + 1);
    return best;
  };
  // Quadratic time would be 256 times as long.
  EXPECT_LT(seconds(32000), 10 * 16 * seconds(2000));
}

}  // namespace
}  // namespace topk
