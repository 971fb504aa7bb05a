#include "server/calls/many_call.h"

#include <grpcpp/support/byte_buffer.h>
#include <tbb/parallel_for.h>

#include <utility>
#include <vector>

#include "server/calls/raw_message.h"
#include "server/calls/status_map.h"
#include "server/calls/streaming_call.h"

namespace topk {
namespace {

// What has arrived is answered as a group: computed in one pass, written into
// one buffer. Meanwhile the next group arrives.
class ManyCall final : public StreamingCall {
 public:
  ManyCall(TopKService& service, EventLoop& loop)
      : StreamingCall(service, loop, Method::kComputeTopKMany) {}

 private:
  void Accept() override { AcceptComputeTopKMany(service_, loop_); }

  void Work(int64_t) override { AnswerGroup(); }

  // Answers what has been received; one group at a time.
  void AnswerGroup() {
    const Intake::Taken taken = Take(group_);
    if (taken.end) return Finish(Status{});
    if (!taken.any) return;
    since_ = taken.since;
    int64_t bytes = 0;
    for (grpc::ByteBuffer& request : group_) {
      bytes += service_.WorkBytes(request);
    }
    Hold();
    service_.work().Run(bytes, [this, bytes] {
      Answer(bytes);
      Release();
      return bytes;
    });
  }

  void Answer(int64_t bytes) {
    if (const Status gone = CheckAlive(); !gone.ok()) return Finish(gone);
    // One by one where all of them take less than handing them out.
    answers_.resize(group_.size());
    const auto answer = [this](size_t i) { answers_[i] = Compute(group_[i]); };
    if (bytes > WorkQueue::kSmall) {
      tbb::parallel_for(size_t{0}, group_.size(), answer);
    } else {
      for (size_t i = 0; i < group_.size(); ++i) answer(i);
    }
    sent_ = 0;
    SendNext();
  }

  // One request, whatever is wrong with it, has one answer.
  grpc::ByteBuffer Compute(grpc::ByteBuffer& bytes) {
    RawMessage<v1::TopKRequest> request;
    Tally tally;
    tally.begun = since_;
    tally.Arrive(since_);
    tally.Lap(Stage::kQueue);
    v1::TopKResult result;
    const Status status = CatchBadAlloc([&]() -> Status {
      if (Status s = service_.gate().Ask(visit(),
                                         static_cast<int64_t>(bytes.Length()));
          !s.ok()) {
        return s;
      }
      if (Status s = ReadRaw(bytes, request); !s.ok()) return s;
      return service_.Compute(request, Computing(), tally,
                              *result.mutable_response());
    });
    if (!status.ok()) *result.mutable_error() = ToRpcStatus(status);
    result.set_request_id(request.message.request_id());
    grpc::ByteBuffer answer = WriteMessage(std::move(result));
    if (status.ok()) tally.Lap(Stage::kEncode);
    service_.Record(info(), request.message, tally, status);
    return answer;
  }

  void SendNext() {
    grpc::WriteOptions options;
    if (sent_ + 1 < answers_.size()) options.set_buffer_hint();
    Write(answers_[sent_++], options);
  }

  void Sent(bool ok) override {
    if (!ok) return Finish(Cancelled());
    if (sent_ < answers_.size()) return SendNext();
    visit().share.ReturnAll();
    AnswerGroup();
  }

  std::vector<grpc::ByteBuffer> group_;
  Tally::Clock::time_point since_;  // its first message's arrival
  std::vector<grpc::ByteBuffer> answers_;
  size_t sent_ = 0;
};

}  // namespace

void AcceptComputeTopKMany(TopKService& service, EventLoop& loop) {
  (new ManyCall(service, loop))->Wait();
}

}  // namespace topk
