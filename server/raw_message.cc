#include "server/raw_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace topk {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// Below this a copy costs less than taking the message apart.
constexpr size_t kLeastRaw = size_t{16} << 10;
// Data up to this goes with its message, not in a slice of its own.
constexpr size_t kLeastSlice = size_t{4} << 10;

// Which field holds the data: the numbers from the message down. `rival` is the
// other member of its oneof, which takes its place if it comes later.
struct Path {
  std::span<const int> numbers;
  int rival;
};

// Where the data is in the message.
struct Place {
  bool found = false;
  size_t offset = 0;
  size_t size = 0;
};

constexpr uint32_t TagOf(int number) {
  return WireFormatLite::MakeTag(number,
                                 WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// Copies a message but for its data. False for bytes that are malformed, and
// for what is valid but is not a matter of leaving one field out: a field that
// comes twice, or its rival.
bool CopyWithoutData(CodedInputStream& in, const Path& path, std::string& to,
                     Place& place) {
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
    seen = true;
    const auto length = static_cast<int>(size);
    if (last) {
      place = {true, static_cast<size_t>(in.CurrentPosition()), size};
      if (!in.Skip(length)) return false;
      continue;
    }
    std::string inner;
    const CodedInputStream::Limit limit = in.PushLimit(length);
    if (!CopyWithoutData(in, {path.numbers.subspan(1), path.rival}, inner,
                         place) ||
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

// Reads all but the data, if the message is of the usual kind.
template <class Message>
bool ReadWithoutData(grpc::ByteBuffer& bytes, const Path& path,
                     RawMessage<Message>& to) {
  std::string rest;
  Place place;
  {
    grpc::ProtoBufferReader reader(&bytes);
    CodedInputStream in(&reader);
    if (!reader.status().ok() || !CopyWithoutData(in, path, rest, place) ||
        !place.found || place.size == 0) {
      return false;
    }
  }
  if (!to.message.ParseFromString(rest) || !bytes.Dump(&to.slices).ok()) {
    return false;
  }
  to.data = PartsAt(place, to.slices);
  return true;
}

template <class Message>
Status Read(grpc::ByteBuffer& bytes, const Path& path,
            RawMessage<Message>& to) {
  to.message.Clear();
  to.data.clear();
  to.slices.clear();
  if (bytes.Length() >= kLeastRaw && ReadWithoutData(bytes, path, to)) {
    return {};
  }
  to.slices.clear();
  if (!grpc::SerializationTraits<Message>::Deserialize(&bytes, &to.message)
           .ok()) {
    to.message.Clear();  // half a message is none
    return MalformedMessage();
  }
  return {};
}

void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) {
    to.push_back(static_cast<char>(value | 0x80));
  }
  to.push_back(static_cast<char>(value));
}

// Appends a tensor as a field: what precedes its data to `head`, which then
// becomes a slice, as its data does.
void AppendTensor(int number, v1::Tensor& tensor, std::string& head,
                  std::vector<grpc::Slice>& slices) {
  std::unique_ptr<std::string> data;
  if (tensor.data().size() >= kLeastSlice) data.reset(tensor.release_data());
  std::string bytes = tensor.SerializeAsString();
  if (data != nullptr) {
    AppendVarint(TagOf(v1::Tensor::kDataFieldNumber), bytes);
    AppendVarint(data->size(), bytes);
  }
  AppendVarint(TagOf(number), head);
  AppendVarint(bytes.size() + (data != nullptr ? data->size() : 0), head);
  head += bytes;
  if (data == nullptr) return;
  slices.emplace_back(head);
  head.clear();
  const size_t size = data->size();
  char* const begin = data->data();
  slices.emplace_back(
      begin, size, [](void* owner) { delete static_cast<std::string*>(owner); },
      data.release());
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

grpc::ByteBuffer WriteRaw(v1::TopKResponse answer) {
  std::vector<grpc::Slice> slices;
  const bool has_values = answer.has_values();
  const bool has_indices = answer.has_indices();
  v1::Tensor values = std::move(*answer.mutable_values());
  v1::Tensor indices = std::move(*answer.mutable_indices());
  answer.clear_values();
  answer.clear_indices();
  std::string head = answer.SerializeAsString();
  if (has_values) {
    AppendTensor(v1::TopKResponse::kValuesFieldNumber, values, head, slices);
  }
  if (has_indices) {
    AppendTensor(v1::TopKResponse::kIndicesFieldNumber, indices, head, slices);
  }
  if (!head.empty()) slices.emplace_back(head);
  return {slices.data(), slices.size()};
}

}  // namespace topk
