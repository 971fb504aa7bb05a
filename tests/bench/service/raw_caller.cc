#include <grpcpp/impl/client_unary_call.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/bench/service/caller.h"
#include "tests/bench/service/raw_stream.h"
#include "tests/bench/service/wire.h"

namespace topk::bench {
namespace {

template <class Response>
class RawUnaryCaller final : public ClosedLoop {
 public:
  RawUnaryCaller(const char* method, ChannelPtr channel, QuestionPtr question,
                 grpc::ByteBuffer request)
      : channel_(std::move(channel)),
        method_(method, grpc::internal::RpcMethod::NORMAL_RPC, channel_),
        check_(std::move(question)),
        request_(std::move(request)) {}

 private:
  void Call() override {
    grpc::ClientContext context;
    Bound(context);
    grpc::ByteBuffer bytes;
    Require(
        grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
            channel_.get(), method_, &context, request_, &bytes));
    if (!check_.IsDue()) return;
    FromBytes(bytes, answer_);
    check_.Check(answer_);
  }

  const ChannelPtr channel_;
  const grpc::internal::RpcMethod method_;
  SpotCheck check_;  // keeps the question, which the request may borrow
  const grpc::ByteBuffer request_;
  Response answer_;  // its memory serves all calls
};

class RawStreamCaller final : public ClosedLoop {
 public:
  RawStreamCaller(ChannelPtr channel, QuestionPtr question)
      : stream_(std::move(channel), "/topk.v1.TopKService/StreamTopK"),
        question_(question),
        check_(question),
        pieces_(PieceBytes(*question)) {
    v1::TopKRequestChunk header;
    *header.mutable_header() = question->header;
    header_ = ToBytes(header);
  }

 private:
  void Call() override {
    grpc::ClientContext context;
    const auto stream = stream_.Open(context);
    bool sent = stream->Write(header_);
    for (int64_t i = 0; i < question_->repeats; ++i) {
      for (const grpc::ByteBuffer& piece : pieces_) {
        sent = sent && stream->Write(piece);
      }
    }
    stream->WritesDone();
    grpc::ByteBuffer bytes;
    v1::TopKResponseChunk answer;
    bool read = stream->Read(&bytes);
    if (read) FromBytes(bytes, answer);
    while (read) read = stream->Read(&bytes);  // a small answer is one message
    Require(stream->Finish());
    if (check_.IsDue()) check_.Check(answer.header());
  }

  const RawStreamMethod stream_;
  const QuestionPtr question_;
  SpotCheck check_;
  grpc::ByteBuffer header_;
  const std::vector<grpc::ByteBuffer> pieces_;
};

}  // namespace

CallerPtr RawUnary(ChannelPtr channel, QuestionPtr question,
                   grpc::ByteBuffer request) {
  return std::make_unique<RawUnaryCaller<v1::TopKResponse>>(
      "/topk.v1.TopKService/ComputeTopK", std::move(channel),
      std::move(question), std::move(request));
}

CallerPtr RawInfer(ChannelPtr channel, QuestionPtr question,
                   grpc::ByteBuffer request) {
  return std::make_unique<RawUnaryCaller<inference::ModelInferResponse>>(
      "/inference.GRPCInferenceService/ModelInfer", std::move(channel),
      std::move(question), std::move(request));
}

CallerPtr RawStream(ChannelPtr channel, QuestionPtr question) {
  return std::make_unique<RawStreamCaller>(std::move(channel),
                                           std::move(question));
}

}  // namespace topk::bench
