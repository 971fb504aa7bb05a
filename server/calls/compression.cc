#include "server/calls/compression.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>
#include <zlib.h>

#include <memory>
#include <new>
#include <vector>

#include "core/base/free_with.h"
#include "core/base/text.h"

namespace topk {
namespace {

class CompressedReader final : public grpc::ProtoBufferReader {
 public:
  using ProtoBufferReader::ProtoBufferReader;

  grpc_compression_algorithm algorithm() {
    return reader()->buffer_in->data.raw.compression;
  }

  // Sets the input of `stream` to the next bytes, unless it has input or there
  // are no more bytes.
  void Feed(z_stream& stream) {
    const void* data = nullptr;
    int size = 0;
    while (stream.avail_in == 0 && Next(&data, &size)) {
      // zlib does not modify the input.
      stream.next_in = static_cast<Bytef*>(const_cast<void*>(data));
      stream.avail_in = static_cast<uInt>(size);
    }
  }
};

Status Damaged() {
  return InvalidArgument("MALFORMED_MESSAGE", "",
                         "the request is not valid gzip or deflate data");
}

}  // namespace

bool IsCompressed(grpc::ByteBuffer& message) {
  CompressedReader reader(&message);
  return reader.status().ok() && reader.algorithm() != GRPC_COMPRESS_NONE;
}

Status Decompress(grpc::ByteBuffer& message, int64_t max_bytes,
                  const char* limit,
                  const std::function<Status(Size bytes)>& charge) {
  constexpr size_t kPiece = size_t{64} << 10;
  constexpr int kDetectFormat = 32;  // gzip or zlib, by the header
  z_stream stream{};
  if (inflateInit2(&stream, kDetectFormat + MAX_WBITS) != Z_OK) {
    throw std::bad_alloc();
  }
  const std::unique_ptr<z_stream, FreeWith<inflateEnd>> end(&stream);
  CompressedReader reader(&message);
  std::vector<Bytef> piece(kPiece);
  std::vector<grpc::Slice> content;
  int64_t bytes = 0;
  for (int result = Z_OK; result == Z_OK;) {
    stream.next_out = piece.data();
    stream.avail_out = kPiece;
    while (result == Z_OK && stream.avail_out > 0) {
      reader.Feed(stream);
      const int64_t room = stream.avail_out;
      result = inflate(&stream, Z_NO_FLUSH);
      if (result != Z_OK && result != Z_STREAM_END) return Damaged();
      const int64_t size = room - stream.avail_out;
      bytes += size;
      if (bytes > max_bytes) {
        return ResourceExhausted("MESSAGE_TOO_LARGE", "",
                                 StrCat("the decompressed message exceeds ",
                                        max_bytes, " bytes (", limit, ")"));
      }
      if (Status s = charge(size); !s.ok()) return s;
    }
    if (stream.avail_out == kPiece) break;  // no content is left
    content.emplace_back(piece.data(), kPiece - stream.avail_out);
  }
  reader.Feed(stream);
  if (stream.avail_in > 0) return Damaged();  // data after the end
  grpc::ByteBuffer(content.data(), content.size()).Swap(&message);
  return {};
}

}  // namespace topk
