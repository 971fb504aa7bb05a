#include "server/calls/raw_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>

#include "core/base/text.h"

namespace topk {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using Parts = std::vector<std::span<const std::byte>>;

// Maximum number of slices that a poller visits, at up to 10 ns each.
constexpr int64_t kMaxPollerSlices = 4096;
// A worker charges memory in steps of about this many bytes.
constexpr int64_t kChargeStep = int64_t{64} << 10;
// A growing array may take this many times the memory of its elements: capacity
// doubles, an arena keeps outgrown arrays, and typed contents are copied once
// more.
constexpr int64_t kArrayGrowth = 5;

enum class FieldKind : uint8_t {
  kUnknown,  // dropped
  kNumber,   // copied; packed or unpacked
  kText,     // copied
  kMessage,  // scanned recursively
  kData,     // not copied, only located
};

struct Fields;

struct Field {
  FieldKind kind = FieldKind::kUnknown;
  WireFormatLite::WireType wire_type = {};
  bool repeated = false;
  bool typed = false;  // packed elements count against kMaxTypedBytes
  // Upper bound on the memory of one occurrence, or of one element of a
  // repeated number field. Excludes the characters of a text and the fields of
  // a message.
  int64_t memory = 0;
  std::unique_ptr<Fields> fields = nullptr;  // set if kMessage
};

// The fields of a message type. REQUIRES: the type is not recursive.
struct Fields {
  explicit Fields(const Descriptor& type);

  const Field& Find(uint32_t number) const {
    static const Field unknown;
    return number < by_number.size() ? by_number[number] : unknown;
  }

  // Marks the field at `path` as the tensor data.
  Fields& SetData(std::initializer_list<int> path) {
    Fields* fields = this;
    for (const int number : path) {
      Field& field = fields->by_number[static_cast<size_t>(number)];
      if (field.kind == FieldKind::kText) field.kind = FieldKind::kData;
      fields = field.fields.get();
    }
    return *this;
  }

  std::vector<Field> by_number;
  int64_t memory = 0;  // of an empty message of this type
};

int64_t SizeOfNumber(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return 1;
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return 8;
    default:
      return 4;
  }
}

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
    field.kind = FieldKind::kNumber;
    field.memory = field.repeated ? kArrayGrowth * SizeOfNumber(from) : 0;
    field.typed =
        from.containing_type() == inference::InferTensorContents::descriptor();
  }
  return field;
}

Fields::Fields(const Descriptor& type) {
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

Status TooMuchToParse() {
  return ResourceExhausted("TOO_MUCH_TO_PARSE", "",
                           StrCat("the message has more than ", kMaxParsedBytes,
                                  " bytes besides its tensor's data"));
}

Status TooManyNumbers() {
  return ResourceExhausted(
      "TOO_MUCH_TO_PARSE", "inputs",
      StrCat("a request of more than ", kMaxTypedBytes,
             " bytes must have its tensor in raw_input_contents"));
}

// Reads a message in one pass over its slices. Keeps the bytes of known fields
// for the generated parser, which handles repeated singular fields and several
// members of a oneof. A singular field with the tensor data is kept as an empty
// field.
class Scanner {
 public:
  // `data` receives the tensor data: the last occurrence of a singular field,
  // or the first occurrences of a repeated field.
  Scanner(grpc::ByteBuffer& bytes, Reader reader, const ChargeParsed& charge,
          std::span<Parts> data)
      : slices_(&bytes),
        end_(static_cast<int64_t>(bytes.Length())),
        poller_(reader == Reader::kPoller),
        charge_(charge),
        data_(data) {}

  // Parses the message into `to`, which is empty after an error.
  StepStatus Read(const Fields& fields, google::protobuf::Message& to) {
    to.Clear();
    if (!slices_.status().ok()) return MalformedMessage();
    if (poller_ && slices_.count() > kMaxPollerSlices) return kNeedsWorker;
    if (!Scan(fields) || (Uncharged() > kUnchargedBytes && !Charge())) {
      if (too_long_) return kNeedsWorker;
      return failure_.has_value() ? *failure_ : MalformedMessage();
    }
    FlushRun();
    if (to.ParseFromArray(kept_.data(), static_cast<int>(kept_.size()))) {
      return Status();
    }
    to.Clear();
    return MalformedMessage();
  }

  // The number of data fields found.
  size_t data_count() const { return data_count_; }

 private:
  // The generated parser's limits: bytes of a tag or size, bytes of any varint,
  // nesting depth of messages and groups.
  static constexpr int kMaxVarint32 = 5;
  static constexpr int kMaxVarint64 = 10;
  static constexpr int kMaxDepth = 100;

  bool Scan(const Fields& fields) {
    while (Position() < end_) {
      if (!ScanField(fields) || Position() > end_ || !Fits(0) ||
          !ChargeStep()) {
        return false;
      }
    }
    return true;
  }

  bool ScanField(const Fields& fields) {
    const size_t begin = KeptSize();
    uint32_t tag = 0;
    if (!ReadTag(tag)) return false;
    const Field& field = fields.Find(tag >> 3);
    const auto type = WireFormatLite::GetTagWireType(tag);
    if (type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (field.kind != FieldKind::kNumber || field.wire_type != type) {
        return DropSince(begin) && Skip(tag) && KeepAgain();
      }
      memory_ += field.memory;
      return Skip(tag);
    }
    const size_t size_begin = KeptSize();
    int64_t size = 0;
    if (!ReadSize(size)) return false;
    switch (field.kind) {
      case FieldKind::kMessage:
        return ScanMessage(field, size_begin, size);
      case FieldKind::kData:
        DropSince(field.repeated ? begin : size_begin);
        if (!field.repeated) kept_.push_back(0);
        return RecordData(field, size) && KeepAgain();
      case FieldKind::kText:
        memory_ += field.memory + 2 * size;
        return Fits(size) && Skip(size);
      case FieldKind::kNumber:
        if (field.repeated) return ScanPacked(field, size);
        break;
      case FieldKind::kUnknown:
        break;
    }
    return Fits(size) && DropSince(begin) && Skip(size) && KeepAgain();
  }

  // Scans a nested message. Its size was kept at `size_begin`.
  bool ScanMessage(const Field& field, size_t size_begin, int64_t size) {
    memory_ += field.memory;
    const size_t begin = KeptSize();
    const int64_t outer_end = std::exchange(end_, Position() + size);
    if (++depth_ > kMaxDepth || !Scan(*field.fields)) return false;
    --depth_;
    end_ = outer_end;
    size_t kept = KeptSize() - begin;
    if (kept == static_cast<size_t>(size)) return true;
    // Fewer bytes than `size` were kept. Overwrite the old size in place,
    // padding the varint to the same length.
    FlushRun();
    for (size_t i = size_begin; i < begin; ++i, kept >>= 7) {
      kept_[i] = static_cast<char>((kept & 0x7f) | (i + 1 < begin) << 7);
    }
    return true;
  }

  bool RecordData(const Field& field, int64_t size) {
    Parts* parts = &data_.front();
    if (field.repeated) {
      parts = data_count_ < data_.size() ? &data_[data_count_] : nullptr;
    } else {
      parts->clear();
    }
    ++data_count_;
    exempt_ += size;
    return Take(size, [parts](const uint8_t* part, int64_t bytes) {
      if (parts == nullptr) return;
      parts->push_back({reinterpret_cast<const std::byte*>(part),
                        static_cast<size_t>(bytes)});
    });
  }

  bool ScanPacked(const Field& field, int64_t size) {
    if (field.typed) {
      exempt_ += size;
      typed_bytes_ += size;
      if (poller_ && typed_bytes_ > kMaxPollerBytes) return TooLong();
      if (typed_bytes_ > kMaxTypedBytes) failure_ = TooManyNumbers();
      if (typed_bytes_ > kMaxTypedBytes) return false;
    } else if (!Fits(size)) {
      return false;
    }
    return Take(size, [&](const uint8_t* part, int64_t bytes) {
      if (field.wire_type != WireFormatLite::WIRETYPE_VARINT) {
        memory_ += kArrayGrowth * bytes;
        return;
      }
      const auto ends_number = [](uint8_t byte) { return byte < 0x80; };
      memory_ += field.memory * std::count_if(part, part + bytes, ends_number);
    });
  }

  // Skips the value of a field whose tag was read.
  bool Skip(uint32_t tag) {
    uint64_t value = 0;
    int64_t size = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT:
        return ReadVarint(kMaxVarint64, value);
      case WireFormatLite::WIRETYPE_FIXED64:
        return Skip(int64_t{8});
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return ReadSize(size) && Fits(size) && Skip(size);
      case WireFormatLite::WIRETYPE_START_GROUP:
        return SkipGroup(tag >> 3);
      case WireFormatLite::WIRETYPE_FIXED32:
        return Skip(int64_t{4});
      default:
        return false;
    }
  }

  bool SkipGroup(uint32_t number) {
    if (++depth_ > kMaxDepth) return false;
    const uint32_t end = WireFormatLite::MakeTag(
        static_cast<int>(number), WireFormatLite::WIRETYPE_END_GROUP);
    uint32_t tag = 0;
    while (ReadTag(tag) && tag != end) {
      if (!Skip(tag) || !Fits(0)) return false;
    }
    --depth_;
    return tag == end;
  }

  bool Skip(int64_t size) {
    return Take(size, [](const uint8_t*, int64_t) {});
  }

  bool ReadTag(uint32_t& tag) {
    uint64_t value = 0;
    if (!ReadVarint(kMaxVarint32, value)) return false;
    tag = static_cast<uint32_t>(value);
    return tag >> 3 != 0;
  }

  bool ReadSize(int64_t& size) {
    constexpr uint64_t kMax = INT32_MAX - 16;
    uint64_t value = 0;
    if (!ReadVarint(kMaxVarint32, value) || value > kMax) return false;
    size = static_cast<int64_t>(value);
    return size <= end_ - Position();
  }

  bool ReadVarint(int max_bytes, uint64_t& value) {
    if (next_ != slice_end_ && *next_ < 0x80) {  // fast path
      value = *next_++;
      return true;
    }
    value = 0;
    for (int i = 0; i < max_bytes; ++i) {
      if (next_ == slice_end_ && !NextSlice()) return false;
      const uint8_t byte = *next_++;
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  // Consumes `size` bytes. Calls sink(data, bytes) for each contiguous part.
  template <class Sink>
  bool Take(int64_t size, const Sink& sink) {
    while (size > 0) {
      if (next_ == slice_end_ && !NextSlice()) return false;
      const int64_t part = std::min<int64_t>(size, slice_end_ - next_);
      sink(next_, part);
      next_ += part;
      size -= part;
      if (!ChargeStep()) return false;
    }
    return true;
  }

  bool NextSlice() {
    if (!dropping_) FlushRun();
    const void* data = nullptr;
    int size = 0;
    do {
      if (!slices_.Next(&data, &size)) return false;
    } while (size == 0);
    run_ = next_ = static_cast<const uint8_t*>(data);
    slice_end_ = next_ + size;
    slice_end_position_ += size;
    return true;
  }

  int64_t Position() const {
    return slice_end_position_ - (slice_end_ - next_);
  }

  // Returns how many bytes have been kept so far. REQUIRES: !dropping_.
  size_t KeptSize() const {
    return kept_.size() + static_cast<size_t>(next_ - run_);
  }

  void FlushRun() {
    kept_.append(reinterpret_cast<const char*>(run_),
                 static_cast<size_t>(next_ - run_));
    run_ = next_;
  }

  // Truncates the kept bytes to `size`, and drops further bytes until
  // KeepAgain().
  bool DropSince(size_t size) {
    FlushRun();
    kept_.resize(size);
    return dropping_ = true;
  }

  bool KeepAgain() {
    run_ = next_;
    dropping_ = false;
    return true;
  }

  // Returns whether `size` more bytes are within the limit on parsed bytes.
  bool Fits(int64_t size) {
    const int64_t parsed = Position() + size - exempt_;
    if (poller_) return parsed <= kMaxPollerBytes || TooLong();
    if (parsed > kMaxParsedBytes) failure_ = TooMuchToParse();
    return parsed <= kMaxParsedBytes;
  }

  bool TooLong() {
    too_long_ = true;
    return false;
  }

  // Returns the memory not charged yet. kept_ may use twice its size, and its
  // outgrown buffers as much again.
  int64_t Uncharged() const {
    const size_t kept = dropping_ ? kept_.size() : KeptSize();
    return memory_ + 4 * static_cast<int64_t>(kept) - charged_;
  }

  // A poller may give up, so it charges only at the end.
  bool ChargeStep() {
    return poller_ || Uncharged() <= kChargeStep || Charge();
  }

  bool Charge() {
    const int64_t more = Uncharged();
    charged_ += more;
    Status status = charge_(more);
    if (status.ok()) return true;
    failure_ = std::move(status);
    return false;
  }

  SliceReader slices_;
  const uint8_t* next_ = nullptr;
  const uint8_t* slice_end_ = nullptr;
  int64_t slice_end_position_ = 0;
  int64_t end_;         // end of the message being scanned
  int64_t exempt_ = 0;  // not counted against kMaxParsedBytes
  int64_t typed_bytes_ = 0;
  int depth_ = 0;
  // The known fields: kept_, then the bytes [run_, next_) of the current slice.
  std::array<char, 512> first_kept_;
  std::pmr::monotonic_buffer_resource kept_memory_{first_kept_.data(),
                                                   first_kept_.size()};
  std::pmr::string kept_{&kept_memory_};
  const uint8_t* run_ = nullptr;
  bool dropping_ = false;
  const bool poller_;
  bool too_long_ = false;          // for a poller
  std::optional<Status> failure_;  // unset if malformed
  const ChargeParsed& charge_;
  int64_t memory_ = 0;  // upper bound, excluding kept_
  int64_t charged_ = 0;
  const std::span<Parts> data_;
  size_t data_count_ = 0;
};

// Reads a message with one tensor. `has_data` returns whether the data field is
// set in the parsed message.
template <class Message, class HasData>
StepStatus Read(grpc::ByteBuffer& bytes, Reader reader,
                const ChargeParsed& charge, const Fields& fields,
                const HasData& has_data, RawMessage<Message>& to) {
  to.data.clear();
  Scanner scanner(bytes, reader, charge, {&to.data, 1});
  const StepStatus status = scanner.Read(fields, to.message);
  const bool ok = !NeedsWorker(status) && status->ok();
  if (!ok || !has_data(to.message)) to.data.clear();
  return status;
}

}  // namespace

Status MalformedMessage() {
  return InvalidArgument("MALFORMED_MESSAGE", "",
                         "the request is not a valid protobuf message of this "
                         "method's request type");
}

StepStatus ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                   const ChargeParsed& charge,
                   RawMessage<v1::TopKRequest>& to) {
  static const Fields fields =
      std::move(Fields(*v1::TopKRequest::descriptor())
                    .SetData({v1::TopKRequest::kTensorFieldNumber,
                              v1::Tensor::kDataFieldNumber}));
  const auto has_data = [](const v1::TopKRequest& request) {
    return request.tensor().has_data();
  };
  return Read(bytes, reader, charge, fields, has_data, to);
}

StepStatus ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                   const ChargeParsed& charge,
                   RawMessage<v1::TopKRequestChunk>& to) {
  static const Fields fields =
      std::move(Fields(*v1::TopKRequestChunk::descriptor())
                    .SetData({v1::TopKRequestChunk::kDataFieldNumber})
                    .SetData({v1::TopKRequestChunk::kHeaderFieldNumber,
                              v1::TopKRequest::kTensorFieldNumber,
                              v1::Tensor::kDataFieldNumber}));
  const auto has_data = [](const v1::TopKRequestChunk& chunk) {
    return chunk.has_data();
  };
  return Read(bytes, reader, charge, fields, has_data, to);
}

StepStatus ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                   const ChargeParsed& charge, RawInfer& to) {
  using inference::ModelInferRequest;
  static const Fields fields = std::move(
      Fields(*ModelInferRequest::descriptor())
          .SetData({ModelInferRequest::kRawInputContentsFieldNumber}));
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
  // Memory per slice: gRPC's slice object, and our entries in growing vectors.
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
