// Compares ParseMessage() with the generated parser, which keeps unknown
// fields, on any bytes. The first byte selects the message type, the second how
// the bytes are split into slices. The rest is the message.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/calls/parsed_message.h"
#include "tests/fuzz/input.h"

namespace topk {
namespace {

// Returns a long unknown field.
std::string Padding() {
  const std::string bytes(size_t{17} << 10, 'p');
  return "\xba\x3e\x80\x88\x01" + bytes;  // field 999 and its length
}

grpc::ByteBuffer Cut(const std::string& bytes, size_t size) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += size) {
    slices.emplace_back(bytes.substr(i, size));
  }
  return {slices.data(), slices.size()};
}

std::string& DataOf(v1::TopKRequest& request) {
  return *request.mutable_tensor()->mutable_data();
}
std::string& DataOf(v1::TopKRequestChunk& chunk) {
  return *chunk.mutable_data();
}

using testing::Require;

// The charge does not include the unused bytes of an arena's last block.
constexpr int64_t kArenaBlock = int64_t{8} << 10;

// Reads a message. Returns the status and the charge.
template <class To>
std::pair<Status, int64_t> Read(grpc::ByteBuffer& buffer, To& to) {
  Size charged;
  const auto charge = [&charged](Size more) {
    charged += more;
    return Status();
  };
  const Status read = ParseMessage(buffer, charge, to);
  return {read, charged.value()};
}

// Returns whether the message that was read should be compared.
bool Compares(grpc::ByteBuffer& buffer, bool valid, const Status& read) {
  if (read.reason == "TOO_MUCH_TO_PARSE") {
    Require(static_cast<int64_t>(buffer.Length()) > kMaxParsedBytes,
            "a small message is not too much");
    return false;
  }
  Require(read.ok() == valid, "judged in two ways");
  return valid;
}

// Requires that a charge covers what was allocated.
void RequireCovered(int64_t charged, size_t allocated) {
  Require(charged + kUnchargedBytes >= static_cast<int64_t>(allocated),
          "the charge covers the message");
}

template <class Message>
void Check(const std::string& bytes, size_t cut) {
  Message expected;
  const bool valid = expected.ParseFromString(bytes);
  expected.DiscardUnknownFields();
  grpc::ByteBuffer buffer = Cut(bytes, cut);
  ParsedMessage<Message> raw;
  const auto [read, charged] = Read(buffer, raw);
  RequireCovered(charged + SliceMemory(buffer),
                 raw.message.SpaceUsedLong() - sizeof(raw.message) +
                     raw.data.capacity() * sizeof(raw.data.front()));
  if (!Compares(buffer, valid, read)) return;
  raw.message.DiscardUnknownFields();  // kept in small messages
  if constexpr (std::is_same_v<Message, v1::TopKRequestChunk>) {
    // ParseMessage() records only whether a header has data.
    for (Message* chunk : {&raw.message, &expected}) {
      if (chunk->header().tensor().has_data()) {
        chunk->mutable_header()->mutable_tensor()->set_data("");
      }
    }
  }
  if (!raw.data.empty()) {
    std::string& data = DataOf(raw.message);
    Require(data.empty(), "data in two places");
    for (const auto& piece : raw.data) {
      data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
  }
  Require(raw.message.SerializeAsString() == expected.SerializeAsString(),
          "read in two ways");
}

// Serializes a message deterministically: maps have no order.
std::string InOrder(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  static_cast<void>(message.SerializeToCodedStream(&out));
  out.Trim();
  return bytes;
}

void CheckInfer(const std::string& bytes, size_t cut) {
  inference::ModelInferRequest expected;
  const bool valid = expected.ParseFromString(bytes);
  expected.DiscardUnknownFields();
  google::protobuf::Arena arena;
  grpc::ByteBuffer buffer = Cut(bytes, cut);
  ParsedInfer raw(arena);
  const auto before = arena.SpaceAllocated();
  const auto [read, charged] = Read(buffer, raw);
  RequireCovered(
      charged + kArenaBlock,
      std::max<size_t>(arena.SpaceAllocated() - before,
                       raw.message.SpaceUsedLong() - sizeof(raw.message)));
  if (!Compares(buffer, valid, read)) return;
  raw.message.DiscardUnknownFields();
  const auto count = static_cast<size_t>(expected.raw_input_contents_size());
  Require(raw.content_count == count, "contents are counted in two ways");
  for (size_t i = 0; i < std::min(count, raw.contents.size()); ++i) {
    std::string data;
    for (const auto& piece : raw.contents[i]) {
      data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    Require(data == expected.raw_input_contents(static_cast<int>(i)),
            "contents are read in two ways");
  }
  expected.clear_raw_input_contents();
  Require(InOrder(raw.message) == InOrder(expected), "read in two ways");
}

}  // namespace
}  // namespace topk

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const topk::testing::QuietProtobuf quiet;
  if (size < 2) return 0;
  const size_t cut = data[1] == 0 ? 8192 : data[1];
  const std::string rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  for (const std::string& bytes :
       {rest, rest + topk::Padding(), topk::Padding() + rest}) {
    if (data[0] == 0xff) {
      topk::CheckInfer(bytes, cut);
    } else if (data[0] % 2 == 0) {
      topk::Check<topk::v1::TopKRequest>(bytes, cut);
    } else {
      topk::Check<topk::v1::TopKRequestChunk>(bytes, cut);
    }
  }
  return 0;
}
