// ReadRaw agrees with the generated parser on all bytes.
#include "server/calls/raw_message.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/quiet_protobuf.h"

namespace topk {
namespace {

using Random = std::mt19937_64;

int64_t Below(Random& random, size_t bound) {
  return static_cast<int64_t>(random() % bound);
}

// The bytes as gRPC hands them over: in slices, cut anywhere.
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

// Reads as a worker does, without a charge.
template <class To>
Status Read(grpc::ByteBuffer& bytes, To& to) {
  return *ReadRaw(
      bytes, Reader::kWorker, [](Size) { return Status(); }, to);
}

std::string DataOf(const RawMessage<v1::TopKRequest>& raw) {
  std::string data;
  for (const auto& piece : raw.data) {
    data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return data;
}

// Reads bytes both ways; returns whether they are valid.
bool ExpectSame(const std::string& bytes, Random& random, int& raw_count) {
  v1::TopKRequest expected;
  const bool valid = expected.ParseFromString(bytes);
  RawMessage<v1::TopKRequest> raw;
  grpc::ByteBuffer buffer = Cut(bytes, random);
  const Status status = Read(buffer, raw);
  EXPECT_EQ(status.ok(), valid);
  if (!valid || !status.ok()) return false;
  if (!raw.data.empty()) {
    ++raw_count;
    EXPECT_TRUE(raw.message.tensor().data().empty());
    raw.message.mutable_tensor()->set_data(DataOf(raw));
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

TEST(RawMessage, ReadsARequestLikeTheGeneratedParser) {
  Random random(1);
  int raw = 0;
  for (int i = 0; i < 150; ++i) {
    EXPECT_TRUE(ExpectSame(Valid(random).SerializeAsString(), random, raw));
  }
  EXPECT_GT(raw, 75);  // the rest were small
}

TEST(RawMessage, RejectsDamagedBytesLikeTheGeneratedParser) {
  testing::QuietProtobuf quiet;
  Random random(2);
  int raw = 0;
  int valid = 0;
  for (int i = 0; i < 900; ++i) {
    std::string bytes = Valid(random).SerializeAsString();
    // Most damage where the fields are: at the ends.
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

// A field of bytes.
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
  // Twice: the last one counts, tensors are merged.
  EXPECT_TRUE(same(Field(kTensor, data + other)));
  EXPECT_TRUE(same(Field(kTensor, data) + Field(kTensor, other)));
  EXPECT_TRUE(same(Field(kTensor, data) + Field(kTensor, "")));
  // One source takes the place of the other.
  EXPECT_TRUE(same(Field(kTensor, data + shared)));
  EXPECT_TRUE(same(Field(kTensor, shared + data)));
  EXPECT_TRUE(same(Field(kTensor, data) + Field(kTensor, shared)));
  EXPECT_TRUE(same(Field(kTensor, Field(kData, "")) + Field(999, data)));
  // Lengths that lie.
  EXPECT_FALSE(same(Field(kTensor, data).substr(0, 19000)));
  EXPECT_FALSE(same(Varint(kTensor << 3 | 2) + Varint(20003) + data));
  EXPECT_FALSE(same(Varint(kTensor << 3 | 2) + Varint(19000) + data));
  EXPECT_FALSE(same(Field(kTensor, Varint(kData << 3 | 2) + Varint(1 << 30) +
                                       std::string(20000, 'd'))));
  EXPECT_FALSE(same(Field(kTensor, data) + Varint(0)));
  EXPECT_FALSE(same(Field(kTensor, data) + Varint(998 << 3 | 4)));
}

TEST(RawMessage, ReadsChunks) {
  Random random(4);
  v1::TopKRequestChunk chunk;
  chunk.set_data(std::string(100000, 'c'));
  RawMessage<v1::TopKRequestChunk> raw;
  grpc::ByteBuffer bytes = Cut(chunk.SerializeAsString(), random);
  ASSERT_TRUE(Read(bytes, raw).ok());
  size_t size = 0;
  for (const auto& piece : raw.data) size += piece.size();
  EXPECT_EQ(size, 100000u);
  // A header is never taken for data; and the reader may be used again.
  *chunk.mutable_header() = Valid(random);
  chunk.mutable_header()->set_request_id(std::string(20000, 'r'));
  bytes = Cut(chunk.SerializeAsString(), random);
  ASSERT_TRUE(Read(bytes, raw).ok());
  EXPECT_TRUE(raw.data.empty());
  // Only that it has data is read.
  EXPECT_TRUE(raw.message.header().tensor().has_data());
  raw.message.mutable_header()->mutable_tensor()->set_data(
      chunk.header().tensor().data());
  EXPECT_EQ(raw.message.SerializeAsString(), chunk.SerializeAsString());
  // Both: the one that comes last.
  const std::string header = chunk.SerializeAsString();
  const std::string data =
      Field(v1::TopKRequestChunk::kDataFieldNumber, std::string(20000, 'd'));
  for (const std::string& both : {header + data, data + header}) {
    v1::TopKRequestChunk expected;
    ASSERT_TRUE(expected.ParseFromString(both));
    bytes = Cut(both, random);
    ASSERT_TRUE(Read(bytes, raw).ok());
    EXPECT_EQ(raw.message.has_data(), expected.has_data());
    EXPECT_EQ(raw.data.empty(), !expected.has_data());
    EXPECT_EQ(raw.message.has_header(), expected.has_header());
    EXPECT_EQ(raw.message.header().request_id(),
              expected.header().request_id());
  }
}

TEST(RawMessage, ReadsRawContentsOfModelInfer) {
  testing::QuietProtobuf quiet;
  Random random(5);
  inference::ModelInferRequest request;
  request.set_model_name("onnx_topk");
  request.add_inputs()->set_name("X");
  for (const size_t size : {20000, 8, 0}) {
    request.add_raw_input_contents(std::string(size, 'x'));
  }
  const std::string all = request.SerializeAsString();
  request.mutable_raw_input_contents()->DeleteSubrange(0, 1);
  const std::string small = request.SerializeAsString();
  constexpr int kRaw =
      inference::ModelInferRequest::kRawInputContentsFieldNumber;
  std::string many = all;
  for (int i = 0; i < 100; ++i) many += Field(kRaw, std::string(5, 'm'));
  for (const std::string& bytes :
       {all, small, many, all + Field(999, "u"), Field(998, all)}) {
    inference::ModelInferRequest expected;
    ASSERT_TRUE(expected.ParseFromString(bytes));
    google::protobuf::Arena arena;
    RawInfer raw(arena);
    grpc::ByteBuffer buffer = Cut(bytes, random);
    ASSERT_TRUE(Read(buffer, raw).ok());
    ASSERT_EQ(raw.contents.size(),
              static_cast<size_t>(expected.raw_input_contents_size()));
    for (size_t i = 0; i < raw.contents.size(); ++i) {
      std::string data;
      for (const auto& piece : raw.contents[i]) {
        data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      }
      EXPECT_EQ(data, expected.raw_input_contents(static_cast<int>(i)));
    }
    raw.message.clear_raw_input_contents();
    expected.clear_raw_input_contents();
    EXPECT_EQ(raw.message.SerializeAsString(), expected.SerializeAsString());
  }
  grpc::ByteBuffer cut = Cut(all.substr(0, 19000), random);
  google::protobuf::Arena arena;
  RawInfer raw(arena);
  EXPECT_EQ(Read(cut, raw).code, Code::kInvalidArgument);
}

TEST(RawMessage, WritesResponsesLikeTheGeneratedCode) {
  for (const size_t size : {size_t{0}, size_t{100}, size_t{5000}}) {
    for (const int what : {0, 1, 2, 3}) {  // neither, values, indices, both
      v1::TopKResponse answer;
      answer.set_request_id("id");
      answer.mutable_execution()->set_backend("cpu");
      if (what & 1) {
        answer.mutable_values()->add_shape(7);
        answer.mutable_values()->set_data(std::string(size, 'v'));
      }
      if (what & 2) {
        answer.mutable_indices()->set_data_type(v1::DATA_TYPE_I64);
        answer.mutable_indices()->set_data(std::string(2 * size, 'i'));
      }
      const grpc::ByteBuffer bytes = WriteMessage(answer);
      std::vector<grpc::Slice> slices;
      ASSERT_TRUE(bytes.Dump(&slices).ok());
      std::string joined;
      for (const grpc::Slice& slice : slices) {
        joined.append(reinterpret_cast<const char*>(slice.begin()),
                      slice.size());
      }
      v1::TopKResponse read;
      ASSERT_TRUE(read.ParseFromString(joined));
      EXPECT_EQ(read.SerializeAsString(), answer.SerializeAsString());
      EXPECT_EQ(read.values().has_data(), answer.values().has_data());
    }
  }
}

}  // namespace
}  // namespace topk
