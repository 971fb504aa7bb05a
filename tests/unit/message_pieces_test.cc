// The pieces have the bytes of the message, and large data is not copied.
#include "core/common/message_pieces.h"

#include <gtest/gtest.h>

namespace topk {
namespace {

std::string Joined(const std::vector<MessagePiece>& pieces) {
  std::string all;
  for (const MessagePiece& piece : pieces) {
    EXPECT_TRUE(piece.own.empty() != piece.borrowed.empty());
    all += piece.own;
    all.append(reinterpret_cast<const char*>(piece.borrowed.data()),
               piece.borrowed.size());
  }
  return all;
}

v1::TopKRequest Request() {
  v1::TopKRequest request;
  request.set_request_id("id");
  request.mutable_onnx()->mutable_k()->set_value(3);
  request.mutable_tensor()->add_shape(7);
  return request;
}

TEST(MessagePieces, HaveTheBytesOfTheMessage) {
  for (const size_t size : {0, 1, 100, 127, 128, 4000, 4096, 5000, 100000}) {
    v1::TopKRequest request = Request();
    request.mutable_tensor()->set_data(std::string(size, 'd'));
    const std::vector<MessagePiece> pieces = PiecesOf(request);
    EXPECT_EQ(Joined(pieces), request.SerializeAsString()) << size;
    bool borrowed = false;
    for (const MessagePiece& piece : pieces) {
      borrowed |= static_cast<const void*>(piece.borrowed.data()) ==
                  request.tensor().data().data();
    }
    EXPECT_EQ(borrowed, size >= 4096) << size;
  }
  EXPECT_EQ(Joined(PiecesOf(v1::TopKRequest())), "");
}

}  // namespace
}  // namespace topk
