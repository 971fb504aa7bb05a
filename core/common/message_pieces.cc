#include "core/common/message_pieces.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <utility>

namespace topk {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// Collects the pieces that protobuf writes. Copies small writes into blocks,
// and references large fields.
class PieceStream final : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  bool Next(void** data, int* size) override {
    constexpr int kBlockBytes = 4 << 10;
    std::string& own = pieces_.emplace_back().own;
    own.resize(kBlockBytes);
    *data = own.data();
    *size = kBlockBytes;
    bytes_ += kBlockBytes;
    return true;
  }
  void BackUp(int count) override {
    std::string& own = pieces_.back().own;
    own.resize(own.size() - static_cast<size_t>(count));
    bytes_ -= count;
  }
  int64_t ByteCount() const override { return bytes_; }
  bool WriteAliasedRaw(const void* data, int size) override {
    pieces_.push_back(
        {{}, {static_cast<const std::byte*>(data), static_cast<size_t>(size)}});
    bytes_ += size;
    return true;
  }
  bool AllowsAliasing() const override { return true; }

  std::vector<MessagePiece> Take() {
    std::erase_if(pieces_, [](const MessagePiece& piece) {
      return piece.own.empty() && piece.borrowed.empty();
    });
    return std::move(pieces_);
  }

 private:
  std::vector<MessagePiece> pieces_;
  int64_t bytes_ = 0;
};

}  // namespace

void AppendVarint(uint64_t number, std::string& to) {
  for (; number >= 0x80; number >>= 7) {
    to.push_back(static_cast<char>(number | 0x80));
  }
  to.push_back(static_cast<char>(number));
}

void BeginField(int number, size_t size, std::string& to) {
  AppendVarint(WireFormatLite::MakeTag(
                   number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED),
               to);
  AppendVarint(size, to);
}

std::vector<MessagePiece> PiecesOf(
    const google::protobuf::MessageLite& message) {
  PieceStream stream;
  {
    CodedOutputStream out(&stream);
    out.EnableAliasing(true);
    // Serialization cannot fail, because a PieceStream accepts all writes.
    static_cast<void>(message.SerializeToCodedStream(&out));
  }
  return stream.Take();
}

std::vector<MessagePiece> PiecesOf(int field, std::span<const std::byte> data) {
  std::vector<MessagePiece> pieces(2);
  BeginField(field, data.size(), pieces[0].own);
  pieces[1].borrowed = data;
  return pieces;
}

std::vector<MessagePiece> PiecesOf(const v1::TopKRequest& header,
                                   std::span<const std::byte> tensor) {
  v1::TopKRequest rest = header;
  const v1::Tensor without_data = std::move(*rest.mutable_tensor());
  rest.clear_tensor();
  std::vector<MessagePiece> pieces =
      PiecesOf(v1::Tensor::kDataFieldNumber, tensor);
  std::string inner = without_data.SerializeAsString() + pieces[0].own;
  std::string& outer = pieces[0].own;
  outer = rest.SerializeAsString();
  BeginField(v1::TopKRequest::kTensorFieldNumber, inner.size() + tensor.size(),
             outer);
  outer += inner;
  return pieces;
}

}  // namespace topk
