#include "server/calls/raw_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/base/happens_before.h"
#include "core/base/text.h"

namespace topk {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// Below this a copy costs less than taking the message apart.
constexpr size_t kLeastRaw = size_t{16} << 10;
// Messages up to this are one slice.
constexpr size_t kLeastSlice = size_t{4} << 10;
// A streamed answer up to this size comes whole in the header, a larger one in
// pieces of it. Measured: 1 MiB messages move bytes fastest.
constexpr size_t kPieceBytes = size_t{1} << 20;

// Which field holds the data: the numbers from the message down. `rival` is the
// other member of its oneof, which takes its place if it comes later. Only a
// repeated field may come more than once.
struct Path {
  std::span<const int> numbers;
  int rival;
  bool repeated = false;
};

// Where data is in the message.
struct Place {
  size_t offset;
  size_t size;
};
// More of them are not worth the while.
constexpr size_t kMostPlaces = 64;
// What an inference may have beside its raw contents: two bytes can become a
// hundred when they are parsed.
constexpr size_t kMostParsed = size_t{8} << 20;

constexpr uint32_t TagOf(int number) {
  return WireFormatLite::MakeTag(number,
                                 WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// Copies a message but for its data. False for bytes that are malformed, and
// for what is valid but is not a matter of leaving one field out: a field that
// comes twice, or its rival.
bool CopyWithoutData(CodedInputStream& in, const Path& path, std::string& to,
                     std::vector<Place>& places) {
  StringOutputStream stream(&to);
  CodedOutputStream out(&stream);
  const bool last = path.numbers.size() == 1;
  bool seen = false;
  while (const uint32_t tag = in.ReadTag()) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (last && number == path.rival) return false;
    if (tag != TagOf(path.numbers[0])) {
      // The same number with another type is an unknown field.
      if (!WireFormatLite::SkipField(&in, tag, &out)) return false;
      continue;
    }
    uint32_t size = 0;
    if (seen || !in.ReadVarint32(&size) || size > INT32_MAX) return false;
    seen = !path.repeated;
    const auto length = static_cast<int>(size);
    if (last) {
      places.push_back({static_cast<size_t>(in.CurrentPosition()), size});
      if (!in.Skip(length) || places.size() > kMostPlaces) return false;
      continue;
    }
    std::string inner;
    const CodedInputStream::Limit limit = in.PushLimit(length);
    if (!CopyWithoutData(in, {path.numbers.subspan(1), path.rival}, inner,
                         places) ||
        in.BytesUntilLimit() != 0) {
      return false;
    }
    in.PopLimit(limit);
    out.WriteTag(tag);
    out.WriteVarint32(static_cast<uint32_t>(inner.size()));
    out.WriteString(inner);
  }
  return in.ConsumedEntireMessage();
}

// Returns the parts of the slices that lie at a place of the message.
std::vector<std::span<const std::byte>> PartsAt(
    const Place& place, const std::vector<grpc::Slice>& slices) {
  std::vector<std::span<const std::byte>> parts;
  size_t skip = place.offset;
  size_t left = place.size;
  for (const grpc::Slice& slice : slices) {
    if (left == 0) break;
    if (skip >= slice.size()) {
      skip -= slice.size();
      continue;
    }
    const size_t size = std::min(left, slice.size() - skip);
    parts.push_back(
        {reinterpret_cast<const std::byte*>(slice.begin()) + skip, size});
    skip = 0;
    left -= size;
  }
  return parts;
}

// Reads all but the data, if the message is of the usual kind; returns where
// that is in the slices, or nothing.
std::vector<Place> ReadWithoutData(grpc::ByteBuffer& bytes, const Path& path,
                                   google::protobuf::Message& to,
                                   std::vector<grpc::Slice>& slices) {
  if (bytes.Length() < kLeastRaw) return {};
  std::string rest;
  std::vector<Place> places;
  {
    grpc::ProtoBufferReader reader(&bytes);
    CodedInputStream in(&reader);
    if (!reader.status().ok() || !CopyWithoutData(in, path, rest, places)) {
      return {};
    }
  }
  if (places.empty() || (!path.repeated && places[0].size == 0) ||
      (path.repeated && rest.size() > kMostParsed) ||
      !to.ParseFromString(rest) || !bytes.Dump(&slices).ok()) {
    return {};
  }
  return places;
}

template <class Message>
Status Read(grpc::ByteBuffer& bytes, const Path& path,
            RawMessage<Message>& to) {
  to.message.Clear();
  to.data.clear();
  to.slices.clear();
  const std::vector<Place> places =
      ReadWithoutData(bytes, path, to.message, to.slices);
  if (places.empty()) return ReadMessage(bytes, to.message);
  to.data = PartsAt(places[0], to.slices);
  return {};
}

// Returns a slice of memory that its owner keeps.
grpc::Slice SliceOf(std::span<const std::byte> memory,
                    const std::shared_ptr<const void>& owner) {
  using Owner = std::shared_ptr<const void>;
  auto* const kept = new Owner(owner);
  AnnotateHappensBefore(kept);
  return {const_cast<std::byte*>(memory.data()), memory.size(),
          [](void* done) {
            AnnotateHappensAfter(done);
            delete static_cast<Owner*>(done);
          },
          kept};
}

// Takes a tensor's data out of it, so that its source is unset.
std::shared_ptr<const std::string> TakeData(v1::Tensor& tensor) {
  return std::shared_ptr<const std::string>(tensor.release_data());
}

// Appends messages with pieces of the data in a field.
void AppendPieces(int number, const std::shared_ptr<const std::string>& data,
                  std::vector<grpc::ByteBuffer>& messages) {
  if (data == nullptr) return;
  const auto all = std::as_bytes(std::span(*data));
  for (size_t begin = 0; begin < all.size(); begin += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, all.size() - begin);
    messages.push_back(
        WritePieces(PiecesOf(number, all.subspan(begin, size)), data));
  }
}

}  // namespace

Status MalformedMessage() {
  return InvalidArgument("MALFORMED_MESSAGE", "",
                         "the bytes are not the protobuf message that this "
                         "method takes");
}

Status ReadRaw(grpc::ByteBuffer& bytes, RawMessage<v1::TopKRequest>& to) {
  static constexpr int kNumbers[] = {v1::TopKRequest::kTensorFieldNumber,
                                     v1::Tensor::kDataFieldNumber};
  return Read(bytes, {kNumbers, v1::Tensor::kSharedMemoryFieldNumber}, to);
}

Status ReadRaw(grpc::ByteBuffer& bytes, RawMessage<v1::TopKRequestChunk>& to) {
  static constexpr int kNumbers[] = {v1::TopKRequestChunk::kDataFieldNumber};
  return Read(bytes, {kNumbers, v1::TopKRequestChunk::kHeaderFieldNumber}, to);
}

Status ReadRaw(grpc::ByteBuffer& bytes, RawInfer& to) {
  using inference::ModelInferRequest;
  static constexpr int kNumbers[] = {
      ModelInferRequest::kRawInputContentsFieldNumber};
  constexpr int kNone = 0;
  to.contents.clear();
  to.slices.clear();
  const std::vector<Place> places =
      ReadWithoutData(bytes, {kNumbers, kNone, true}, to.message, to.slices);
  for (const Place& place : places) {
    to.contents.push_back(PartsAt(place, to.slices));
  }
  if (!places.empty()) return {};
  if (bytes.Length() > kMostParsed) {
    return ResourceExhausted(
        "TOO_MUCH_TO_PARSE", "inputs",
        Cat("a request of more than ", kMostParsed,
            " bytes must have its tensor in raw_input_contents"));
  }
  if (Status s = ReadMessage(bytes, to.message); !s.ok()) return s;
  for (const std::string& data : to.message.raw_input_contents()) {
    to.contents.push_back({std::as_bytes(std::span(data))});
  }
  return {};
}

Status ReadMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& to) {
  grpc::ProtoBufferReader reader(&bytes);
  if (!reader.status().ok() || !to.ParseFromZeroCopyStream(&reader)) {
    to.Clear();  // half a message is none
    return MalformedMessage();
  }
  return {};
}

grpc::ByteBuffer WritePieces(const std::vector<MessagePiece>& pieces,
                             const std::shared_ptr<const void>& owner) {
  size_t size = 0;
  for (const auto& [own, lent] : pieces) size += own.size() + lent.size();
  if (size <= kLeastSlice) {
    grpc_slice bytes = grpc_slice_malloc(size);
    uint8_t* to = GRPC_SLICE_START_PTR(bytes);
    for (const auto& [own, lent] : pieces) {
      for (const auto& part : {std::as_bytes(std::span(own)), lent}) {
        to = std::copy_n(reinterpret_cast<const uint8_t*>(part.data()),
                         part.size(), to);
      }
    }
    const grpc::Slice slice(bytes, grpc::Slice::STEAL_REF);
    return {&slice, 1};
  }
  std::vector<grpc::Slice> slices;
  slices.reserve(pieces.size());
  for (const MessagePiece& piece : pieces) {
    slices.push_back(piece.lent.empty() ? grpc::Slice(piece.own)
                                        : SliceOf(piece.lent, owner));
  }
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer WriteShared(
    const std::shared_ptr<const google::protobuf::Message>& message) {
  const size_t size = message->ByteSizeLong();
  if (size > kLeastSlice) return WritePieces(PiecesOf(*message), message);
  grpc_slice bytes = grpc_slice_malloc(size);
  message->SerializeWithCachedSizesToArray(GRPC_SLICE_START_PTR(bytes));
  const grpc::Slice slice(bytes, grpc::Slice::STEAL_REF);
  return {&slice, 1};
}

std::vector<grpc::ByteBuffer> WriteChunks(v1::TopKResponse answer) {
  std::shared_ptr<const std::string> values;
  std::shared_ptr<const std::string> indices;
  if (answer.values().data().size() + answer.indices().data().size() >
      kPieceBytes) {
    if (answer.has_values()) values = TakeData(*answer.mutable_values());
    if (answer.has_indices()) indices = TakeData(*answer.mutable_indices());
  }
  v1::TopKResponseChunk header;
  *header.mutable_header() = std::move(answer);
  std::vector<grpc::ByteBuffer> messages = {WriteMessage(std::move(header))};
  AppendPieces(v1::TopKResponseChunk::kValuesFieldNumber, values, messages);
  AppendPieces(v1::TopKResponseChunk::kIndicesFieldNumber, indices, messages);
  return messages;
}

}  // namespace topk
