#include "tests/bench/service/wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

#include "inference/grpc_service.pb.h"

namespace topk::bench {
namespace {

// Returns the bytes in front of a field of `bytes` bytes.
std::string FieldHead(int number, size_t bytes) {
  using google::protobuf::internal::WireFormatLite;
  std::string head;
  google::protobuf::io::StringOutputStream out(&head);
  google::protobuf::io::CodedOutputStream coded(&out);
  coded.WriteTag(WireFormatLite::MakeTag(
      number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  coded.WriteVarint64(bytes);
  coded.Trim();
  return head;
}

grpc::ByteBuffer Around(const std::string& head,
                        std::span<const std::byte> data) {
  const std::array<grpc::Slice, 2> slices = {
      grpc::Slice(head),
      grpc::Slice(data.data(), data.size(), grpc::Slice::STATIC_SLICE)};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                   arguments);
}

void Bound(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(5));
}

void Require(const grpc::Status& status) {
  if (status.ok()) return;
  throw std::runtime_error("a call failed with code " +
                           std::to_string(status.error_code()) + ": " +
                           status.error_message());
}

grpc::ByteBuffer ToBytes(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

void FromBytes(grpc::ByteBuffer& bytes, google::protobuf::Message& message) {
  Require(
      grpc::GenericDeserialize<grpc::ProtoBufferReader,
                               google::protobuf::Message>(&bytes, &message));
}

grpc::ByteBuffer RequestBytes(const Question& question) {
  v1::TopKRequest rest = question.header;
  rest.clear_tensor();
  const size_t size = question.data().size();
  const std::string tensor = question.header.tensor().SerializeAsString() +
                             FieldHead(v1::Tensor::kDataFieldNumber, size);
  return Around(
      rest.SerializeAsString() +
          FieldHead(v1::TopKRequest::kTensorFieldNumber, tensor.size() + size) +
          tensor,
      question.data());
}

grpc::ByteBuffer InferBytes(const Question& question) {
  inference::ModelInferRequest request;
  request.set_model_name("onnx_topk");
  request.set_model_version(std::to_string(question.header.spec().version()));
  (*request.mutable_parameters())["k"].set_int64_param(
      question.header.onnx().k().value());
  auto& input = *request.add_inputs();
  input.set_name("X");
  input.set_datatype("FP32");
  *input.mutable_shape() = question.header.tensor().shape();
  constexpr int kRaw =
      inference::ModelInferRequest::kRawInputContentsFieldNumber;
  return Around(
      request.SerializeAsString() + FieldHead(kRaw, question.data().size()),
      question.data());
}

std::vector<grpc::ByteBuffer> PieceBytes(const Question& question) {
  const std::span<const std::byte> data = question.data();
  std::vector<grpc::ByteBuffer> pieces;
  for (size_t begin = 0; begin < data.size(); begin += kPieceBytes) {
    const auto piece =
        data.subspan(begin, std::min(kPieceBytes, data.size() - begin));
    pieces.push_back(
        Around(FieldHead(v1::TopKRequestChunk::kDataFieldNumber, piece.size()),
               piece));
  }
  return pieces;
}

}  // namespace topk::bench
