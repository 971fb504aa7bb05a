#include "server/calls/parsed_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/common/message_pieces.h"

namespace topk {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using Parts = std::vector<std::span<const std::byte>>;

// ChargeParsed is called for about this many bytes at a time.
constexpr int64_t kChargeStep = int64_t{64} << 10;

// Upper bounds on the memory of a string without its characters, of an array
// without its elements, and of an empty message or map entry.
constexpr int64_t kTextMemory = 112;
constexpr int64_t kArrayMemory = 48;
constexpr int64_t kMessageMemory = 384;
// Nested messages of at most this many bytes are copied without a scan of their
// fields, unless they can hold tensor data. Most requests have two such
// messages.
constexpr int kSmallMessage = 16;
// Maximum memory of a growing array, in bytes per byte of content. The array
// takes up to 2 bytes, because its capacity doubles. The previous, smaller
// arrays together take up to 2 bytes, because an arena does not free them. The
// copy of an OIP tensor's typed contents as raw data takes 1 byte.
constexpr int64_t kArrayGrowth = 5;

// Returns whether a field holds tensor data that is not copied. Typed contents
// and the tensor in the attribute `k` are copied. `parent` is the field that
// holds the enclosing message, or null at the top level.
bool IsData(const FieldDescriptor& field, const FieldDescriptor* parent) {
  return field.type() == FieldDescriptor::TYPE_BYTES &&
         (parent == nullptr ||
          parent->containing_type() == v1::TopKRequest::descriptor());
}

bool CanHoldData(const google::protobuf::Descriptor* type) {
  static const auto* const tensor = v1::Tensor::descriptor();
  static const auto* const request = v1::TopKRequest::descriptor();
  return type == tensor || type == request;
}

WireFormatLite::WireType WireTypeOf(const FieldDescriptor& field) {
  return WireFormatLite::WireTypeForFieldType(
      static_cast<WireFormatLite::FieldType>(field.type()));
}

// Returns an upper bound on the memory for the numbers parsed from `packed`.
int64_t NumbersMemory(const FieldDescriptor& field, std::string_view packed) {
  const auto bytes = static_cast<int64_t>(packed.size());
  if (WireTypeOf(field) != WireFormatLite::WIRETYPE_VARINT) {
    return kArrayMemory + kArrayGrowth * bytes;
  }
  const auto type = field.cpp_type();
  const bool has_8_bytes = type == FieldDescriptor::CPPTYPE_INT64 ||
                           type == FieldDescriptor::CPPTYPE_UINT64;
  const auto ends_number = [](char c) { return (c & 0x80) == 0; };
  return kArrayMemory + kArrayGrowth * (has_8_bytes ? 8 : 4) *
                            std::ranges::count_if(packed, ends_number);
}

// Iterates over a buffer's slices.
class SliceReader final : public grpc::ProtoBufferReader {
 public:
  using ProtoBufferReader::ProtoBufferReader;

  // Number of slices. REQUIRES: status().ok().
  int64_t count() {
    return static_cast<int64_t>(
        reader()->buffer_in->data.raw.slice_buffer.count);
  }
};

Status MalformedMessage() {
  return InvalidArgument("MALFORMED_MESSAGE", "",
                         "the request is not a valid protobuf message of this "
                         "method's request type");
}

Status TooMuchToParse() {
  return ResourceExhausted("TOO_MUCH_TO_PARSE", "",
                           StrCat("the message has more than ", kMaxParsedBytes,
                                  " bytes, not counting the tensor data"));
}

Status TooManyNumbers() {
  return ResourceExhausted(
      "TOO_MUCH_TO_PARSE", "inputs",
      StrCat("a request of more than ", kMaxTypedBytes,
             " bytes must have its tensor in raw_input_contents"));
}

// Reads a message in one pass over its slices. Copies the known fields without
// the tensor data, and runs the generated parser on the copy. The parser
// resolves fields that occur more than once. A non-repeated data field is empty
// in the copy, but not left out, so that the parser marks the field as present.
class Scanner {
 public:
  // `data` receives the tensor data: the last value of a singular field, or the
  // first `data.size()` values of a repeated field.
  Scanner(grpc::ByteBuffer& bytes, const ChargeParsed& charge,
          std::span<Parts> data)
      : slices_(&bytes), charge_(charge), data_(data) {
    static_cast<void>(input_.PushLimit(static_cast<int>(bytes.Length())));
    kept_.reserve(kUsuallyKept);
  }

  // Parses the message into `to`. After an error, `to` is empty.
  Status Read(google::protobuf::Message& to) {
    to.Clear();
    if (!slices_.status().ok()) return MalformedMessage();
    if (!Scan(to.GetDescriptor(), nullptr) || !ChargeAbove(kUnchargedBytes)) {
      return failure_.ok() ? MalformedMessage() : failure_;
    }
    if (to.ParseFromString(kept_)) return Status();
    to.Clear();
    return MalformedMessage();
  }

  size_t data_count() const { return data_count_; }

 private:
  // Limits of the generated parser: the maximum length of an encoded tag or
  // size in bytes, and the maximum nesting depth of messages and groups.
  static constexpr int kMaxVarint32 = 5;
  static constexpr int kMaxDepth = 100;
  static constexpr size_t kUsuallyKept = 512;

  // Scans the fields of a message, or of a group, up to `end_tag`. For a group,
  // `type` is null, because all its fields are unknown. For `parent`, see
  // IsData().
  bool Scan(const google::protobuf::Descriptor* type,
            const FieldDescriptor* parent, uint32_t end_tag = 0) {
    while (true) {
      const int begin = input_.CurrentPosition();
      const uint32_t tag = input_.ReadTag();
      if (input_.CurrentPosition() - begin > kMaxVarint32) return false;
      if (tag == end_tag) return tag != 0 || input_.ConsumedEntireMessage();
      const auto number = static_cast<int>(tag >> 3);
      if (number == 0) return false;
      const FieldDescriptor* field =
          type == nullptr ? nullptr : type->FindFieldByNumber(number);
      if (!ScanField(field, parent, tag) || !Fits(0)) return false;
      if (!ChargeAbove(kChargeStep)) return false;
    }
  }

  // `field` is null for an unknown field.
  bool ScanField(const FieldDescriptor* field, const FieldDescriptor* parent,
                 uint32_t tag) {
    const auto type = WireFormatLite::GetTagWireType(tag);
    if (type == WireFormatLite::WIRETYPE_START_GROUP) return SkipGroup(tag);
    if (type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return field != nullptr && WireTypeOf(*field) == type
                 ? KeepNumber(*field, tag)
                 : WireFormatLite::SkipField(&input_, tag);
    }
    const int begin = input_.CurrentPosition();
    int size = 0;
    if (!input_.ReadVarintSizeAsInt(&size) ||
        input_.CurrentPosition() - begin > kMaxVarint32) {
      return false;
    }
    // `left` is -1 (no limit) at the top level of a message of INT_MAX bytes.
    const int left = input_.BytesUntilLimit();
    if (left >= 0 && size > left) return false;
    if (field != nullptr) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        return ScanMessage(*field, tag, size);
      }
      if (IsData(*field, parent)) {
        if (!field->is_repeated()) KeepTagAndSize(tag, 0);
        return RecordData(*field, size);
      }
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        memory_ += kTextMemory + 2 * int64_t{size};
        KeepTagAndSize(tag, size);
        return Fits(size) && Keep(size);
      }
      if (field->is_packable()) return ScanPacked(*field, tag, size);
    }
    return Fits(size) && input_.Skip(size);
  }

  bool SkipGroup(uint32_t tag) {
    const uint32_t end_tag = WireFormatLite::MakeTag(
        static_cast<int>(tag >> 3), WireFormatLite::WIRETYPE_END_GROUP);
    return ++depth_ <= kMaxDepth && Scan(nullptr, nullptr, end_tag) &&
           depth_-- > 0;
  }

  bool KeepNumber(const FieldDescriptor& field, uint32_t tag) {
    if (field.is_repeated()) memory_ += kArrayMemory + kArrayGrowth * 8;
    AppendVarint(tag, kept_);
    const auto type = WireTypeOf(field);
    if (type == WireFormatLite::WIRETYPE_FIXED64) return Keep(8);
    if (type == WireFormatLite::WIRETYPE_FIXED32) return Keep(4);
    uint64_t value = 0;
    if (!input_.ReadVarint64(&value)) return false;
    AppendVarint(value, kept_);
    return true;
  }

  void KeepTagAndSize(uint32_t tag, int size) {
    AppendVarint(tag, kept_);
    AppendVarint(static_cast<uint64_t>(size), kept_);
  }

  bool ScanMessage(const FieldDescriptor& field, uint32_t tag, int size) {
    const auto* const type = field.message_type();
    memory_ += kMessageMemory;
    AppendVarint(tag, kept_);
    const size_t tag_end = kept_.size();
    AppendVarint(static_cast<uint64_t>(size), kept_);
    const size_t begin = kept_.size();
    if (size <= kSmallMessage && !CanHoldData(type)) {
      // Allow for size / 2 inner messages. Each takes at least two bytes.
      memory_ += kMessageMemory / 2 * size;
      return Keep(size);
    }
    const auto outer = input_.PushLimit(size);
    if (++depth_ > kMaxDepth || !Scan(type, &field)) return false;
    --depth_;
    input_.PopLimit(outer);
    // Scan() may append fewer bytes than the length prefix says. Overwrite the
    // prefix with the actual length, as a varint of the same size.
    size_t kept = kept_.size() - begin;
    for (size_t i = tag_end; i < begin; ++i, kept >>= 7) {
      kept_[i] = static_cast<char>((kept & 0x7f) | (i + 1 < begin) << 7);
    }
    return true;
  }

  bool RecordData(const FieldDescriptor& field, int size) {
    Parts* parts = &data_.front();
    if (field.is_repeated()) {
      parts = data_count_ < data_.size() ? &data_[data_count_] : nullptr;
    } else {
      parts->clear();
    }
    ++data_count_;
    exempt_ += size;
    while (size > 0) {
      const void* slice = nullptr;
      int part = 0;
      if (!input_.GetDirectBufferPointer(&slice, &part)) return false;
      part = std::min(part, size);
      if (parts != nullptr) {
        parts->push_back(std::span(static_cast<const std::byte*>(slice),
                                   static_cast<size_t>(part)));
      }
      size -= part;
      if (!input_.Skip(part)) return false;
    }
    return true;
  }

  bool ScanPacked(const FieldDescriptor& field, uint32_t tag, int size) {
    if (field.containing_type() ==
        inference::InferTensorContents::descriptor()) {
      exempt_ += size;
      typed_bytes_ += size;
      if (typed_bytes_ > kMaxTypedBytes) return Fail(TooManyNumbers());
    } else if (!Fits(size)) {
      return false;
    }
    KeepTagAndSize(tag, size);
    const size_t begin = kept_.size();
    if (!Keep(size)) return false;
    memory_ += NumbersMemory(field, std::string_view(kept_).substr(begin));
    return true;
  }

  // Copies the next `size` bytes of the input to kept_.
  bool Keep(int size) {
    if (size > kChargeStep && !ChargeAbove(kChargeStep, size)) return false;
    const size_t begin = kept_.size();
    kept_.resize(begin + static_cast<size_t>(size));
    return input_.ReadRaw(&kept_[begin], size);
  }

  // Returns whether parsing `size` more bytes would stay within the limits.
  bool Fits(int size) {
    const int64_t parsed = int64_t{input_.CurrentPosition()} + size - exempt_;
    return parsed <= kMaxParsedBytes || Fail(TooMuchToParse());
  }

  bool Fail(Status failure) {
    failure_ = std::move(failure);
    return false;
  }

  // Charges the uncharged memory if it exceeds `most` bytes. `size` is the
  // number of bytes to be added to kept_. A byte in kept_ is charged as 4
  // bytes: up to 2 for its capacity and up to 2 for all previous buffers.
  bool ChargeAbove(int64_t most, int size = 0) {
    const int64_t kept = static_cast<int64_t>(kept_.size()) + size;
    const int64_t uncharged = memory_ + 4 * kept - charged_;
    if (uncharged <= most) return true;
    charged_ += uncharged;
    Status status = charge_(uncharged);
    return status.ok() || Fail(std::move(status));
  }

  SliceReader slices_;
  google::protobuf::io::CodedInputStream input_{&slices_};
  int64_t exempt_ = 0;  // not counted against kMaxParsedBytes
  int64_t typed_bytes_ = 0;
  int depth_ = 0;
  std::string kept_;  // the known fields
  Status failure_;    // OK if the message is malformed
  const ChargeParsed& charge_;
  int64_t memory_ = 0;  // upper bound, excluding kept_
  int64_t charged_ = 0;
  const std::span<Parts> data_;
  size_t data_count_ = 0;
};

bool HasData(const v1::TopKRequest& request) {
  return request.tensor().has_data();
}
bool HasData(const v1::TopKRequestChunk& chunk) { return chunk.has_data(); }

}  // namespace

template <class Message>
Status ParseMessage(grpc::ByteBuffer& bytes, const ChargeParsed& charge,
                    ParsedMessage<Message>& to) {
  to.data.clear();
  Scanner scanner(bytes, charge, {&to.data, 1});
  const Status status = scanner.Read(to.message);
  // Drop the data if a later member of the oneof replaced it or parsing failed.
  if (!HasData(to.message)) to.data.clear();
  return status;
}

template Status ParseMessage(grpc::ByteBuffer& bytes,
                             const ChargeParsed& charge,
                             ParsedMessage<v1::TopKRequest>& to);
template Status ParseMessage(grpc::ByteBuffer& bytes,
                             const ChargeParsed& charge,
                             ParsedMessage<v1::TopKRequestChunk>& to);

Status ParseMessage(grpc::ByteBuffer& bytes, const ChargeParsed& charge,
                    ParsedInfer& to) {
  for (Parts& parts : to.contents) parts.clear();
  Scanner scanner(bytes, charge, to.contents);
  const Status status = scanner.Read(to.message);
  to.content_count = scanner.data_count();
  return status;
}

Status ReadMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& to) {
  if (bytes.Length() > kMaxParsedBytes) return TooMuchToParse();
  grpc::ProtoBufferReader reader(&bytes);
  if (!reader.status().ok() || !to.ParseFromZeroCopyStream(&reader)) {
    return MalformedMessage();
  }
  return {};
}

int64_t CountSlices(grpc::ByteBuffer& bytes) {
  SliceReader slices(&bytes);
  return slices.status().ok() ? slices.count() : 0;
}

int64_t SliceMemory(grpc::ByteBuffer& bytes) {
  // Maximum overhead of one slice: gRPC's slice object and our vector entries.
  constexpr int64_t kSliceMemory = 128;
  return CountSlices(bytes) * kSliceMemory;
}

void Compact(grpc::ByteBuffer& bytes) {
  constexpr int64_t kSmallSlice = int64_t{4} << 10;
  constexpr int64_t kMaxSlices = 4096;
  const int64_t slices = CountSlices(bytes);
  if (slices > kMaxSlices ||
      static_cast<int64_t>(bytes.Length()) >= slices * kSmallSlice) {
    return;
  }
  grpc::Slice whole;
  if (!bytes.DumpToSingleSlice(&whole).ok()) return;
  bytes = grpc::ByteBuffer(&whole, 1);
}

}  // namespace topk
