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

#include "core/base/deferred_free.h"
#include "core/base/happens_before.h"
#include "core/base/text.h"

namespace topk {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// Up to this a copy costs less than taking the message apart.
constexpr size_t kWholeBytes = size_t{4} << 10;
// Messages up to this are one slice.
constexpr size_t kMinSlice = size_t{4} << 10;
// A streamed answer up to this size comes whole in the header, a larger one in
// pieces of it. Measured: 1 MiB messages move bytes fastest.
constexpr size_t kPieceBytes = size_t{1} << 20;
// The slices that a poller passes over, some 15 ns each.
constexpr int kMaxPollerSlices = 2048;
// The most memory that a byte becomes when it is parsed: that of an empty
// message in a repeated field, which takes two.
constexpr int64_t kParsedFactor = 64;
// Fewer bytes are a part of what any call takes.
constexpr int64_t kUncharged = 512;

// The treatment of a field when a message is taken apart.
enum class Part {
  kData,     // bytes that stay where they are: only their place is noted
  kMessage,  // taken apart in turn
  kNumbers,  // elements that are copied and parsed
};

// A field that is not simply copied.
struct Field {
  int number;
  Part part;
  std::span<const Field> fields = {};  // kMessage: its own
  int64_t factor = 1;                  // kNumbers: memory for a byte at most
};

using Contents = inference::InferTensorContents;
using InferInput = inference::ModelInferRequest::InferInputTensor;

constexpr Field kTensorFields[] = {{v1::Tensor::kDataFieldNumber, Part::kData}};
constexpr Field kRequestFields[] = {
    {v1::TopKRequest::kTensorFieldNumber, Part::kMessage, kTensorFields}};
// A header must have no data; whether it has is for others to say.
constexpr Field kChunkFields[] = {
    {v1::TopKRequestChunk::kHeaderFieldNumber, Part::kMessage, kRequestFields},
    {v1::TopKRequestChunk::kDataFieldNumber, Part::kData}};
// A number has a byte at least; memory that grows is there twice, and the
// elements are copied once more.
constexpr Field kContentsFields[] = {
    {Contents::kBoolContentsFieldNumber, Part::kNumbers, {}, 4},
    {Contents::kIntContentsFieldNumber, Part::kNumbers, {}, 16},
    {Contents::kInt64ContentsFieldNumber, Part::kNumbers, {}, 32},
    {Contents::kUintContentsFieldNumber, Part::kNumbers, {}, 16},
    {Contents::kUint64ContentsFieldNumber, Part::kNumbers, {}, 32},
    {Contents::kFp32ContentsFieldNumber, Part::kNumbers, {}, 4},
    {Contents::kFp64ContentsFieldNumber, Part::kNumbers, {}, 4}};
constexpr Field kInputFields[] = {
    {InferInput::kContentsFieldNumber, Part::kMessage, kContentsFields}};
constexpr Field kInferFields[] = {
    {inference::ModelInferRequest::kInputsFieldNumber, Part::kMessage,
     kInputFields},
    {inference::ModelInferRequest::kRawInputContentsFieldNumber, Part::kData}};

// Where data is in the message.
struct Place {
  size_t offset;
  size_t size;
};

bool IsDelimited(uint32_t tag) {
  return WireFormatLite::GetTagWireType(tag) ==
         WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
}

// Reads a buffer's slices, up to a number of them.
class BoundedReader final : public grpc::ProtoBufferReader {
 public:
  BoundedReader(grpc::ByteBuffer& bytes, int slices)
      : ProtoBufferReader(&bytes), left_(slices) {}

  bool Next(const void** data, int* size) override {
    if (left_ == 0) {
      exceeded_ = true;
      return false;
    }
    --left_;
    return ProtoBufferReader::Next(data, size);
  }

  bool exceeded() const { return exceeded_; }

 private:
  int left_;
  bool exceeded_ = false;
};

// Takes a message apart: copies all but its data, of which the copy has empty
// fields, so that the parser decides what it means that a field comes twice or
// that its rival in a oneof comes later.
class Scanner {
 public:
  enum class Result { kDone, kMalformed, kTooMuch, kTooManyNumbers };

  // `bytes` bound what is copied that is not numbers.
  Scanner(CodedInputStream& in, int64_t bytes, int64_t number_bytes)
      : in_(in), left_(bytes), numbers_left_(number_bytes) {}

  Result Scan(std::span<const Field> fields) {
    if (Copy(fields, copy_)) return Result::kDone;
    return left_ < 0           ? Result::kTooMuch
           : numbers_left_ < 0 ? Result::kTooManyNumbers
                               : Result::kMalformed;
  }

  // The message without its data, and where that is, in order.
  const std::string& copy() const { return copy_; }
  const std::vector<Place>& places() const { return places_; }

  // Upper bound on the memory that the copy takes once parsed.
  Size parsed_bytes(int64_t bytes) const {
    const int64_t beside = bytes - left_;
    return number_memory_ +
           (beside <= kUncharged ? Size(0) : Size(beside) * kParsedFactor);
  }

 private:
  bool Copy(std::span<const Field> fields, std::string& to) {
    StringOutputStream stream(&to);
    CodedOutputStream out(&stream);
    while (true) {
      const int before = in_.CurrentPosition();
      const uint32_t tag = ReadTag();
      if (tag == 0) return in_.ConsumedEntireMessage() && !bad_tag_;
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const auto field = std::ranges::find(fields, number, &Field::number);
      const bool other = field == fields.end() ||
                         (!IsDelimited(tag) && field->part != Part::kNumbers);
      if (other) {
        if (!Skip(tag, out, left_)) return false;
        left_ -= in_.CurrentPosition() - before;
      } else if (field->part == Part::kNumbers) {
        if (!Skip(tag, out, numbers_left_)) return false;
        const int bytes = in_.CurrentPosition() - before;
        numbers_left_ -= bytes;
        number_memory_ += Size(bytes) * field->factor;
      } else {
        int size = 0;
        if (!ReadSize(size)) return false;
        left_ -= in_.CurrentPosition() - before;
        if (!(field->part == Part::kData ? Note(tag, size, out)
                                         : Enter(tag, size, *field, out))) {
          return false;
        }
      }
      if (left_ < 0 || numbers_left_ < 0) return false;
    }
  }

  // The generated parser allows tags and sizes five bytes, sizes 2 GiB.
  static constexpr int kMaxVarint32 = 5;

  uint32_t ReadTag() {
    const int before = in_.CurrentPosition();
    const uint32_t tag = in_.ReadTag();
    bad_tag_ = in_.CurrentPosition() - before > kMaxVarint32;
    return bad_tag_ ? 0 : tag;
  }

  bool ReadSize(int& size) {
    constexpr uint64_t kMax = INT32_MAX - 16;
    const int before = in_.CurrentPosition();
    uint64_t read = 0;
    if (!in_.ReadVarint64(&read) || read > kMax ||
        in_.CurrentPosition() - before > kMaxVarint32) {
      return false;
    }
    size = static_cast<int>(read);
    return true;
  }

  // Copies a field, as WireFormatLite::SkipField() does, which allows tags and
  // sizes any length.
  bool CopyField(uint32_t tag, CodedOutputStream& out) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (number == 0) return false;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        int size = 0;
        std::string bytes;
        if (!ReadSize(size) || !in_.ReadString(&bytes, size)) return false;
        out.WriteTag(tag);
        out.WriteVarint32(static_cast<uint32_t>(size));
        out.WriteString(bytes);
        return true;
      }
      case WireFormatLite::WIRETYPE_START_GROUP: {
        if (!in_.IncrementRecursionDepth()) return false;
        out.WriteTag(tag);
        const uint32_t end =
            WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_END_GROUP);
        while (const uint32_t inner = ReadTag()) {
          if (inner == end) {
            in_.DecrementRecursionDepth();
            out.WriteTag(end);
            return true;
          }
          if (!CopyField(inner, out)) return false;
        }
        return false;
      }
      default:
        return WireFormatLite::SkipField(&in_, tag, &out);
    }
  }

  // Copies a field that has at most `left` bytes more.
  bool Skip(uint32_t tag, CodedOutputStream& out, int64_t& left) {
    const auto most = static_cast<int>(std::min<int64_t>(left, INT32_MAX / 2));
    const int end = in_.CurrentPosition() + most;
    const CodedInputStream::Limit limit = in_.PushLimit(most);
    const bool copied = CopyField(tag, out);
    in_.PopLimit(limit);
    if (!copied && in_.CurrentPosition() == end && in_.BytesUntilLimit() != 0) {
      left = -1;  // not malformed, as far as it was read
    }
    return copied;
  }

  bool Note(uint32_t tag, int size, CodedOutputStream& out) {
    places_.push_back({static_cast<size_t>(in_.CurrentPosition()),
                       static_cast<size_t>(size)});
    out.WriteTag(tag);
    out.WriteVarint32(0);
    return in_.Skip(size);
  }

  bool Enter(uint32_t tag, int size, const Field& field,
             CodedOutputStream& out) {
    std::string inner;
    const CodedInputStream::Limit limit = in_.PushLimit(size);
    if (!Copy(field.fields, inner) || in_.BytesUntilLimit() != 0) return false;
    in_.PopLimit(limit);
    out.WriteTag(tag);
    out.WriteVarint32(static_cast<uint32_t>(inner.size()));
    out.WriteString(inner);
    return true;
  }

  CodedInputStream& in_;
  int64_t left_;
  int64_t numbers_left_;
  bool bad_tag_ = false;
  Size number_memory_;
  std::string copy_;
  std::vector<Place> places_;
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

// Returns the parts of the slices that lie at a place of the message.
std::vector<std::span<const std::byte>> PartsAt(
    const Place& place, const std::vector<grpc::Slice>& slices) {
  std::vector<std::span<const std::byte>> parts;
  if (place.size == 0) return parts;
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

// Reads a message without its data. Returns nothing if a poller should not.
std::optional<Status> ReadWithoutData(grpc::ByteBuffer& bytes, Reader reader,
                                      const ChargeParsed& charge,
                                      std::span<const Field> fields,
                                      google::protobuf::Message& to,
                                      std::vector<Place>& places) {
  const bool poller = reader == Reader::kPoller;
  const int64_t most = poller ? kMaxPollerBytes : kMaxParsedBytes;
  BoundedReader slices(bytes, poller ? kMaxPollerSlices : INT32_MAX);
  if (!slices.status().ok()) return MalformedMessage();
  CodedInputStream in(&slices);
  Scanner scanner(in, most, poller ? kMaxPollerBytes : kMaxTypedBytes);
  const Scanner::Result result = scanner.Scan(fields);
  if (poller && (slices.exceeded() || result == Scanner::Result::kTooMuch ||
                 result == Scanner::Result::kTooManyNumbers)) {
    return std::nullopt;
  }
  switch (result) {
    case Scanner::Result::kMalformed:
      return MalformedMessage();
    case Scanner::Result::kTooMuch:
      return TooMuchToParse();
    case Scanner::Result::kTooManyNumbers:
      return TooManyNumbers();
    case Scanner::Result::kDone:
      break;
  }
  if (Status s = charge(scanner.parsed_bytes(most)); !s.ok()) return s;
  if (!to.ParseFromString(scanner.copy())) {
    to.Clear();  // half a message is of no use
    return MalformedMessage();
  }
  places = scanner.places();
  return Status();
}

// Reads a small message whole, a larger one without its data; the last of that
// counts. `has_data` tells whether the message has any in the end.
template <class Message, class HasData>
std::optional<Status> Read(grpc::ByteBuffer& bytes, Reader reader,
                           const ChargeParsed& charge,
                           std::span<const Field> fields,
                           const HasData& has_data, RawMessage<Message>& to) {
  to.message.Clear();
  to.data.clear();
  to.slices.clear();
  if (bytes.Length() <= kWholeBytes) return ReadMessage(bytes, to.message);
  std::vector<Place> places;
  std::optional<Status> status =
      ReadWithoutData(bytes, reader, charge, fields, to.message, places);
  if (!status.has_value() || !status->ok() || places.empty() ||
      places.back().size == 0 || !has_data(to.message)) {
    return status;
  }
  if (!bytes.Dump(&to.slices).ok()) return MalformedMessage();
  to.data = PartsAt(places.back(), to.slices);
  return status;
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

// Returns an owner that lets go of `owner` later if much was borrowed of it:
// the last slice may be dropped by a poller.
std::shared_ptr<const void> FreedLater(
    std::vector<std::span<const std::byte>> borrowed,
    const std::shared_ptr<const void>& owner) {
  size_t size = 0;
  for (const auto& memory : borrowed) size += memory.size();
  if (size < kLargeBytes) return owner;
  struct Lender {
    std::shared_ptr<const void> owner;
    std::vector<std::span<const std::byte>> borrowed;
  };
  return std::shared_ptr<const void>(
      new Lender{owner, std::move(borrowed)}, [](Lender* done) {
        DeferFree(done, 0, [](void* p) {
          const std::unique_ptr<Lender> lender(static_cast<Lender*>(p));
          if (lender->owner.use_count() > 1) return;
          for (const auto& memory : lender->borrowed) {
            DropPages(const_cast<std::byte*>(memory.data()), memory.size());
          }
        });
      });
}

// Takes a tensor's data out of it, so that its source is unset.
std::shared_ptr<const std::string> TakeData(v1::Tensor& tensor) {
  return std::shared_ptr<const std::string>(tensor.release_data());
}

// Appends messages with pieces of the data in a field.
void AppendPieces(int number, std::shared_ptr<const std::string> data,
                  std::vector<grpc::ByteBuffer>& messages) {
  if (data == nullptr) return;
  const auto all = std::as_bytes(std::span(*data));
  const std::shared_ptr<const void> owner = FreedLater({all}, data);
  data.reset();
  for (size_t begin = 0; begin < all.size(); begin += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, all.size() - begin);
    messages.push_back(
        WritePieces(PiecesOf(number, all.subspan(begin, size)), owner));
  }
}

}  // namespace

Status MalformedMessage() {
  return InvalidArgument("MALFORMED_MESSAGE", "",
                         "the bytes are not the protobuf message that this "
                         "method takes");
}

std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge,
                              RawMessage<v1::TopKRequest>& to) {
  const auto has_data = [](const v1::TopKRequest& request) {
    return request.tensor().has_data();
  };
  return Read(bytes, reader, charge, kRequestFields, has_data, to);
}

std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge,
                              RawMessage<v1::TopKRequestChunk>& to) {
  const auto has_data = [](const v1::TopKRequestChunk& chunk) {
    return chunk.has_data();
  };
  return Read(bytes, reader, charge, kChunkFields, has_data, to);
}

std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge, RawInfer& to) {
  to.message.Clear();
  to.contents.clear();
  to.slices.clear();
  if (bytes.Length() <= kWholeBytes) {
    if (Status s = ReadMessage(bytes, to.message); !s.ok()) return s;
    for (const std::string& data : to.message.raw_input_contents()) {
      to.contents.push_back({std::as_bytes(std::span(data))});
    }
    return Status();
  }
  std::vector<Place> places;
  std::optional<Status> status =
      ReadWithoutData(bytes, reader, charge, kInferFields, to.message, places);
  if (!status.has_value() || !status->ok() || places.empty()) return status;
  if (!bytes.Dump(&to.slices).ok()) return MalformedMessage();
  for (const Place& place : places) {
    to.contents.push_back(PartsAt(place, to.slices));
  }
  return status;
}

Status ReadMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& to) {
  if (bytes.Length() > kMaxParsedBytes) return TooMuchToParse();
  grpc::ProtoBufferReader reader(&bytes);
  if (!reader.status().ok() || !to.ParseFromZeroCopyStream(&reader)) {
    to.Clear();  // half a message is of no use
    return MalformedMessage();
  }
  return {};
}

grpc::ByteBuffer WritePieces(const std::vector<MessagePiece>& pieces,
                             const std::shared_ptr<const void>& owner) {
  size_t size = 0;
  for (const auto& [own, borrowed] : pieces)
    size += own.size() + borrowed.size();
  if (size <= kMinSlice) {
    grpc_slice bytes = grpc_slice_malloc(size);
    uint8_t* to = GRPC_SLICE_START_PTR(bytes);
    for (const auto& [own, borrowed] : pieces) {
      for (const auto& part : {std::as_bytes(std::span(own)), borrowed}) {
        to = std::copy_n(reinterpret_cast<const uint8_t*>(part.data()),
                         part.size(), to);
      }
    }
    const grpc::Slice slice(bytes, grpc::Slice::STEAL_REF);
    return {&slice, 1};
  }
  std::vector<std::span<const std::byte>> borrowed;
  borrowed.reserve(pieces.size());
  for (const MessagePiece& piece : pieces) borrowed.push_back(piece.borrowed);
  const std::shared_ptr<const void> lender =
      FreedLater(std::move(borrowed), owner);
  std::vector<grpc::Slice> slices;
  slices.reserve(pieces.size());
  for (const MessagePiece& piece : pieces) {
    slices.push_back(piece.borrowed.empty() ? grpc::Slice(piece.own)
                                            : SliceOf(piece.borrowed, lender));
  }
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer WriteShared(
    const std::shared_ptr<const google::protobuf::Message>& message) {
  return message->ByteSizeLong() > kMinSlice
             ? WritePieces(PiecesOf(*message), message)
             : CopyMessage(*message);
}

grpc::ByteBuffer CopyMessage(const google::protobuf::Message& message) {
  grpc_slice bytes = grpc_slice_malloc(message.ByteSizeLong());
  static_cast<void>(
      message.SerializeWithCachedSizesToArray(GRPC_SLICE_START_PTR(bytes)));
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
  AppendPieces(v1::TopKResponseChunk::kValuesFieldNumber, std::move(values),
               messages);
  AppendPieces(v1::TopKResponseChunk::kIndicesFieldNumber, std::move(indices),
               messages);
  return messages;
}

}  // namespace topk
