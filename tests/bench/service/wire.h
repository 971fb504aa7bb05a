// Messages as bytes, around a tensor that stays where it is.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/bench/service/question.h"

namespace topk::bench {

/// Largest piece of a streamed tensor: what moves bytes fastest.
constexpr size_t kPieceBytes = size_t{1} << 20;

/// Returns a new connection to a server.
std::shared_ptr<grpc::Channel> Connect(const std::string& target);

/// Bounds a call, so that a server that hangs ends the run.
void Bound(grpc::ClientContext& context);

/// Throws std::runtime_error if a call failed.
void Require(const grpc::Status& status);

/// Returns a message's bytes.
grpc::ByteBuffer ToBytes(const google::protobuf::Message& message);

/// Parses a message. Throws std::runtime_error if it is malformed.
void FromBytes(grpc::ByteBuffer& bytes, google::protobuf::Message& message);

// These borrow the question's elements.

/// Returns a whole request.
grpc::ByteBuffer RequestBytes(const Question& question);

/// Returns a whole request of ModelInfer.
grpc::ByteBuffer InferBytes(const Question& question);

/// Returns the messages of StreamTopK after the header, for one repetition.
std::vector<grpc::ByteBuffer> PieceBytes(const Question& question);

}  // namespace topk::bench
