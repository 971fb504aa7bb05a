#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/bench/service/caller.h"
#include "tests/bench/service/wire.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk::bench {
namespace {

void SetData(std::span<const std::byte> data, std::string& to) {
  to.assign(reinterpret_cast<const char*>(data.data()), data.size());
}

class StockUnaryCaller final : public ClosedLoop {
 public:
  StockUnaryCaller(const ChannelPtr& channel, const QuestionPtr& question,
                   Answers answers)
      : stub_(v1::TopKService::NewStub(channel)),
        answers_(answers),
        check_(question),
        request_(question->header) {
    SetData(question->data(), *request_.mutable_tensor()->mutable_data());
  }

 private:
  void Call() override {
    grpc::ClientContext context;
    Bound(context);
    v1::TopKResponse answer;
    Require(stub_->ComputeTopK(&context, request_, &answer));
    if (answers_ == Answers::kRight && check_.IsDue()) check_.Check(answer);
  }

  const std::unique_ptr<v1::TopKService::Stub> stub_;
  const Answers answers_;
  SpotCheck check_;
  v1::TopKRequest request_;
};

// Of the null server, which alone is asked so.
class StockStreamCaller final : public ClosedLoop {
 public:
  StockStreamCaller(const ChannelPtr& channel, const Question& question)
      : stub_(v1::TopKService::NewStub(channel)) {
    *messages_.emplace_back().mutable_header() = question.header;
    const std::span<const std::byte> data = question.data();
    for (size_t begin = 0; begin < data.size(); begin += kPieceBytes) {
      SetData(data.subspan(begin, std::min(kPieceBytes, data.size() - begin)),
              *messages_.emplace_back().mutable_data());
    }
  }

 private:
  void Call() override {
    grpc::ClientContext context;
    Bound(context);
    const auto stream = stub_->StreamTopK(&context);
    bool sent = true;
    for (const v1::TopKRequestChunk& message : messages_) {
      sent = sent && stream->Write(message);
    }
    stream->WritesDone();
    v1::TopKResponseChunk answer;
    while (stream->Read(&answer)) {
    }
    Require(stream->Finish());
  }

  const std::unique_ptr<v1::TopKService::Stub> stub_;
  std::vector<v1::TopKRequestChunk> messages_;
};

}  // namespace

CallerPtr StockUnary(ChannelPtr channel, QuestionPtr question,
                     Answers answers) {
  return std::make_unique<StockUnaryCaller>(channel, question, answers);
}

CallerPtr StockStream(ChannelPtr channel, QuestionPtr question) {
  return std::make_unique<StockStreamCaller>(channel, *question);
}

}  // namespace topk::bench
