#include "server/calls/raw_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "core/wire/message_pieces.h"

namespace topk {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using Parts = std::vector<std::span<const std::byte>>;

// Maximum number of slices that a poller visits. Each takes up to 10 ns.
constexpr int64_t kMaxPollerSlices = 4096;
// Maximum memory of a message that a poller parses. This bounds the parsing
// time: an empty nested message of two bytes takes 200 ns and 200 bytes of
// memory.
constexpr int64_t kMaxPollerMemory = int64_t{96} << 10;
// A worker charges memory in steps of about this many bytes.
constexpr int kChargeStep = 64 << 10;
// Upper bound on the memory of a growing array, divided by its content. The
// capacity takes 2, because it doubles. The outgrown arrays, which an arena
// keeps, take 2. Another copy of typed contents takes 1.
constexpr int64_t kArrayGrowth = 5;

enum class FieldKind : uint8_t {
  kUnknown,  // dropped
  kNumber,   // copied; packed or unpacked
  kText,     // copied
  kMessage,  // scanned recursively
  kData,     // not copied; only its position is recorded
};

struct Fields;

struct Field {
  FieldKind kind = FieldKind::kUnknown;
  WireFormatLite::WireType wire_type = {};
  bool repeated = false;
  bool typed = false;  // packed elements count against kMaxTypedBytes
  // Upper bound on the memory of each occurrence of the field, or of each
  // element if the field is a repeated number. Excludes the characters of a
  // text field and the fields of a message.
  int64_t memory = 0;
  std::unique_ptr<Fields> fields = nullptr;  // set if kMessage
};

// The fields of a message type. REQUIRES: the type is not recursive.
struct Fields {
  Fields() = default;
  // `data` lists the paths of the fields that hold the tensor data.
  explicit Fields(const Descriptor& type,
                  std::initializer_list<std::initializer_list<int>> data = {});

  const Field& Find(uint32_t number) const {
    static const Field unknown;
    return number < by_number.size() ? by_number[number] : unknown;
  }

  std::vector<Field> by_number;
  int64_t memory = 0;  // of an empty message of this type
};

Field Describe(const FieldDescriptor& from) {
  constexpr int64_t kElement = kArrayGrowth * sizeof(void*) + 8;
  Field field;
  field.repeated = from.is_repeated();
  field.memory = field.repeated ? kElement : 0;
  field.wire_type = WireFormatLite::WireTypeForFieldType(
      static_cast<WireFormatLite::FieldType>(from.type()));
  if (const Descriptor* type = from.message_type()) {
    field.kind = FieldKind::kMessage;
    field.fields = std::make_unique<Fields>(*type);
    field.memory += field.fields->memory;
  } else if (from.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    constexpr int64_t kString = 64;
    field.kind = FieldKind::kText;
    field.memory += kString;
  } else {
    const auto number = from.cpp_type();
    const bool has_8_bytes = number == FieldDescriptor::CPPTYPE_INT64 ||
                             number == FieldDescriptor::CPPTYPE_UINT64 ||
                             number == FieldDescriptor::CPPTYPE_DOUBLE;
    field.kind = FieldKind::kNumber;
    field.memory = field.repeated ? kArrayGrowth * (has_8_bytes ? 8 : 4) : 0;
    field.typed =
        from.containing_type() == inference::InferTensorContents::descriptor();
  }
  return field;
}

Fields::Fields(const Descriptor& type,
               std::initializer_list<std::initializer_list<int>> data) {
  constexpr int64_t kAllocation = 16;
  constexpr int64_t kFirstElements = 48;
  constexpr int64_t kMapEntry = 192;  // with its key and share of the table
  const bool entry = type.options().map_entry();
  memory = kAllocation +
           (entry ? kMapEntry
                  : static_cast<int64_t>(
                        google::protobuf::MessageFactory::generated_factory()
                            ->GetPrototype(&type)
                            ->SpaceUsedLong()));
  for (int i = 0; i < type.field_count(); ++i) {
    const auto number = static_cast<size_t>(type.field(i)->number());
    if (by_number.size() <= number) by_number.resize(number + 1);
    Field& field = by_number[number] = Describe(*type.field(i));
    if (field.repeated && field.kind == FieldKind::kNumber)
      memory += kFirstElements;
    if (entry) memory += field.memory;  // allocated even if not sent
  }
  for (const auto& path : data) {
    Fields* fields = this;
    for (const int number : path) {
      Field& field = fields->by_number[static_cast<size_t>(number)];
      if (field.kind == FieldKind::kText) field.kind = FieldKind::kData;
      fields = field.fields.get();
    }
  }
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
                                  " bytes without its tensor data"));
}

Status TooManyNumbers() {
  return ResourceExhausted(
      "TOO_MUCH_TO_PARSE", "inputs",
      StrCat("a request of more than ", kMaxTypedBytes,
             " bytes must have its tensor in raw_input_contents"));
}

// Reads a message in one pass over its slices. Copies the known fields and runs
// the generated parser on the copy. The parser handles singular fields and
// oneof members that occur more than once. A singular field with tensor data is
// copied without the data, so that the parser still marks the field as present.
class Scanner {
 public:
  // `data` receives the tensor data: the last occurrence of a singular field,
  // or the first occurrences of a repeated field.
  Scanner(grpc::ByteBuffer& bytes, Reader reader, const ChargeParsed& charge,
          std::span<Parts> data)
      : slices_(&bytes),
        poller_(reader == Reader::kPoller),
        charge_(charge),
        data_(data) {
    static_cast<void>(input_.PushLimit(static_cast<int>(bytes.Length())));
    kept_.reserve(kUsuallyKept);
  }

  // Parses the message into `to`. After an error, `to` is empty.
  StepStatus Read(const Fields& fields, google::protobuf::Message& to) {
    to.Clear();
    if (!slices_.status().ok()) return MalformedMessage();
    if (poller_ && slices_.count() > kMaxPollerSlices) return kNeedsWorker;
    if (!Scan(fields) || (Uncharged() > kUnchargedBytes && !Charge())) {
      return failure_.has_value() ? *failure_ : MalformedMessage();
    }
    if (to.ParseFromString(kept_)) return Status();
    to.Clear();
    return MalformedMessage();
  }

  size_t data_count() const { return data_count_; }

 private:
  // The generated parser limits a tag or size to kMaxVarint32 bytes, and nests
  // messages and groups at most kMaxDepth deep.
  static constexpr int kMaxVarint32 = 5;
  static constexpr int kMaxDepth = 100;
  static constexpr size_t kUsuallyKept = 512;

  // Scans the fields of a message, or of the group that `end_tag` ends.
  bool Scan(const Fields& fields, uint32_t end_tag = 0) {
    while (true) {
      const int begin = input_.CurrentPosition();
      const uint32_t tag = input_.ReadTag();
      if (input_.CurrentPosition() - begin > kMaxVarint32) return false;
      if (tag == end_tag) return tag != 0 || input_.ConsumedEntireMessage();
      if (tag >> 3 == 0 || !ScanField(fields.Find(tag >> 3), tag) || !Fits(0) ||
          !ChargeStep()) {
        return false;
      }
    }
  }

  bool ScanField(const Field& field, uint32_t tag) {
    const auto type = WireFormatLite::GetTagWireType(tag);
    if (type == WireFormatLite::WIRETYPE_START_GROUP) return SkipGroup(tag);
    if (type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return field.kind == FieldKind::kNumber && field.wire_type == type
                 ? KeepNumber(field, tag)
                 : WireFormatLite::SkipField(&input_, tag);
    }
    const int begin = input_.CurrentPosition();
    int size = 0;
    if (!input_.ReadVarintSizeAsInt(&size)) return false;
    const int size_bytes = input_.CurrentPosition() - begin;
    // BytesUntilLimit() is -1 at the top level of a message of INT_MAX bytes.
    const int left = input_.BytesUntilLimit();
    if (size_bytes > kMaxVarint32 || (left >= 0 && size > left)) return false;
    switch (field.kind) {
      case FieldKind::kMessage:
        return ScanMessage(field, tag, size, size_bytes);
      case FieldKind::kData:
        if (!field.repeated) KeepTagAndSize(tag, 0);
        return RecordData(field, size);
      case FieldKind::kText:
        memory_ += field.memory + 2 * int64_t{size};
        KeepTagAndSize(tag, size);
        return Fits(size) && Keep(size);
      case FieldKind::kNumber:
        if (field.repeated) return ScanPacked(field, tag, size);
        break;
      case FieldKind::kUnknown:
        break;
    }
    return Fits(size) && input_.Skip(size);
  }

  bool SkipGroup(uint32_t tag) {
    static const Fields no_fields;
    const uint32_t end_tag = WireFormatLite::MakeTag(
        static_cast<int>(tag >> 3), WireFormatLite::WIRETYPE_END_GROUP);
    return ++depth_ <= kMaxDepth && Scan(no_fields, end_tag) && depth_-- > 0;
  }

  bool KeepNumber(const Field& field, uint32_t tag) {
    memory_ += field.memory;
    AppendVarint(tag, kept_);
    if (field.wire_type == WireFormatLite::WIRETYPE_FIXED64) return Keep(8);
    if (field.wire_type == WireFormatLite::WIRETYPE_FIXED32) return Keep(4);
    uint64_t value = 0;
    if (!input_.ReadVarint64(&value)) return false;
    AppendVarint(value, kept_);
    return true;
  }

  void KeepTagAndSize(uint32_t tag, int size) {
    AppendVarint(tag, kept_);
    AppendVarint(static_cast<uint64_t>(size), kept_);
  }

  // `size_bytes` is the length of `size` as a varint.
  bool ScanMessage(const Field& field, uint32_t tag, int size, int size_bytes) {
    memory_ += field.memory;
    AppendVarint(tag, kept_);
    kept_.append(static_cast<size_t>(size_bytes), '\0');
    const size_t begin = kept_.size();
    const auto outer = input_.PushLimit(size);
    if (++depth_ > kMaxDepth || !Scan(*field.fields)) return false;
    --depth_;
    input_.PopLimit(outer);
    // Scan() kept at most `size` bytes. Encode the number of kept bytes as a
    // varint of `size_bytes` bytes.
    size_t kept = kept_.size() - begin;
    for (int i = size_bytes; i > 0; --i, kept >>= 7) {
      kept_[begin - static_cast<size_t>(i)] =
          static_cast<char>((kept & 0x7f) | (i > 1) << 7);
    }
    return true;
  }

  bool RecordData(const Field& field, int size) {
    Parts* parts = &data_.front();
    if (field.repeated) {
      parts = data_count_ < data_.size() ? &data_[data_count_] : nullptr;
    } else {
      parts->clear();
    }
    ++data_count_;
    exempt_ += size;
    return Take(size, [parts](std::span<const std::byte> part) {
      if (parts != nullptr) parts->push_back(part);
    });
  }

  bool ScanPacked(const Field& field, uint32_t tag, int size) {
    if (field.typed) {
      exempt_ += size;
      typed_bytes_ += size;
      if (poller_ && typed_bytes_ > kMaxPollerBytes) return Fail(kNeedsWorker);
      if (typed_bytes_ > kMaxTypedBytes) return Fail(TooManyNumbers());
    } else if (!Fits(size)) {
      return false;
    }
    KeepTagAndSize(tag, size);
    const bool is_varint = field.wire_type == WireFormatLite::WIRETYPE_VARINT;
    return Keep(size, [&](std::span<const std::byte> part) {
      const auto ends_number = [](std::byte byte) {
        return byte < std::byte{0x80};
      };
      memory_ += is_varint
                     ? field.memory * std::ranges::count_if(part, ends_number)
                     : kArrayGrowth * static_cast<int64_t>(part.size());
    });
  }

  // Consumes `size` bytes. Calls sink(part) for each contiguous part.
  template <class Sink>
  bool Take(int size, const Sink& sink,
            int max_part = std::numeric_limits<int>::max()) {
    while (size > 0) {
      const void* data = nullptr;
      int part = 0;
      if (!input_.GetDirectBufferPointer(&data, &part)) return false;
      part = std::min({part, size, max_part});
      sink(std::span(static_cast<const std::byte*>(data),
                     static_cast<size_t>(part)));
      size -= part;
      if (!input_.Skip(part) || !ChargeStep()) return false;
    }
    return true;
  }

  // Like Take(), but also keeps the bytes.
  template <class Sink>
  bool Keep(int size, const Sink& sink) {
    return Take(
        size,
        [&](std::span<const std::byte> part) {
          sink(part);
          kept_.append(reinterpret_cast<const char*>(part.data()), part.size());
        },
        kChargeStep);
  }
  bool Keep(int size) {
    return Keep(size, [](std::span<const std::byte>) {});
  }

  // Returns whether `size` more bytes are within the limit on parsed bytes.
  bool Fits(int size) {
    const int64_t parsed = int64_t{input_.CurrentPosition()} + size - exempt_;
    if (poller_) {
      return (parsed <= kMaxPollerBytes && memory_ <= kMaxPollerMemory) ||
             Fail(kNeedsWorker);
    }
    return parsed <= kMaxParsedBytes || Fail(TooMuchToParse());
  }

  bool Fail(StepStatus failure) {
    failure_.emplace(std::move(failure));
    return false;
  }

  // Returns the memory that is not charged yet. The capacity of kept_ may be
  // twice its size, and its earlier buffers may use as much again.
  int64_t Uncharged() const {
    return memory_ + 4 * static_cast<int64_t>(kept_.size()) - charged_;
  }

  // A poller may leave the message to a worker, so it charges only at the end.
  bool ChargeStep() {
    return poller_ || Uncharged() <= kChargeStep || Charge();
  }

  bool Charge() {
    const int64_t more = Uncharged();
    charged_ += more;
    Status status = charge_(more);
    return status.ok() || Fail(std::move(status));
  }

  SliceReader slices_;
  google::protobuf::io::CodedInputStream input_{&slices_};
  int64_t exempt_ = 0;  // not counted against kMaxParsedBytes
  int64_t typed_bytes_ = 0;
  int depth_ = 0;
  std::string kept_;  // the known fields
  const bool poller_;
  std::optional<StepStatus> failure_;  // unset if malformed
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

template <class Message>
StepStatus Read(grpc::ByteBuffer& bytes, Reader reader,
                const ChargeParsed& charge, const Fields& fields,
                RawMessage<Message>& to) {
  to.data.clear();
  Scanner scanner(bytes, reader, charge, {&to.data, 1});
  const StepStatus status = scanner.Read(fields, to.message);
  // Drop the data if a later member of the oneof replaced it or parsing failed.
  if (!HasData(to.message)) to.data.clear();
  return status;
}

}  // namespace

StepStatus ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                   const ChargeParsed& charge,
                   RawMessage<v1::TopKRequest>& to) {
  static const Fields fields(
      *v1::TopKRequest::descriptor(),
      {{v1::TopKRequest::kTensorFieldNumber, v1::Tensor::kDataFieldNumber}});
  return Read(bytes, reader, charge, fields, to);
}

StepStatus ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                   const ChargeParsed& charge,
                   RawMessage<v1::TopKRequestChunk>& to) {
  static const Fields fields(
      *v1::TopKRequestChunk::descriptor(),
      {{v1::TopKRequestChunk::kDataFieldNumber},
       {v1::TopKRequestChunk::kHeaderFieldNumber,
        v1::TopKRequest::kTensorFieldNumber, v1::Tensor::kDataFieldNumber}});
  return Read(bytes, reader, charge, fields, to);
}

StepStatus ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                   const ChargeParsed& charge, RawInfer& to) {
  using inference::ModelInferRequest;
  static const Fields fields(
      *ModelInferRequest::descriptor(),
      {{ModelInferRequest::kRawInputContentsFieldNumber}});
  for (Parts& parts : to.contents) parts.clear();
  Scanner scanner(bytes, reader, charge, to.contents);
  const StepStatus status = scanner.Read(fields, to.message);
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
  // The size of gRPC's slice object plus our entries in growing vectors.
  constexpr int64_t kSliceMemory = 128;
  return CountSlices(bytes) * kSliceMemory;
}

void Compact(grpc::ByteBuffer& bytes) {
  constexpr int64_t kSmallSlice = int64_t{4} << 10;
  const int64_t slices = CountSlices(bytes);
  if (slices > kMaxPollerSlices ||
      static_cast<int64_t>(bytes.Length()) >= slices * kSmallSlice) {
    return;
  }
  grpc::Slice whole;
  if (!bytes.DumpToSingleSlice(&whole).ok()) return;
  bytes = grpc::ByteBuffer(&whole, 1);
}

}  // namespace topk
